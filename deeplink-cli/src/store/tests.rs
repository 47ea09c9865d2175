//! Keyrings that work, and those that do not.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deeplink_core::secret::SecretKey;
use zeroize::Zeroizing;

use super::keyring::{Keyring, SecretStore};
use super::{Choice, FileStore, StoreName, StoredKey, Stores, Wish, account};
use crate::config::{Dirs, Profile, STORE_FILE, STORE_KEYRING};
use crate::credentials::Source;
use crate::error::{Failure, Stop};
use crate::exit::Exit;

const BASE: &str = "https://dl.example.com";
const KEY: &str = "dl_live_3fa91c07be5d2846a0c1e2f3948576b8d9eafc0b1c2d3e4f";
const OLDER: &str = "dl_live_77777777777777777777777777777777777777777777777f";

/// How a keyring behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    Ok,
    /// It returns an error.
    Error,
    /// It never answers.
    Hang,
    /// It accepts everything and stores nothing.
    Forgets,
    /// It stores something other than it was given.
    Mangles,
    /// It answers reads at once, and stores a secret only after all callers have gone.
    Late,
}

impl Manner {
    /// How long to wait for its answers: short if there is none, and long if there must be one.
    fn limit(self) -> Duration {
        match self {
            Self::Hang => Duration::from_millis(50),
            Self::Late => Duration::from_secs(3),
            Self::Ok | Self::Error | Self::Forgets | Self::Mangles => Duration::from_mins(1),
        }
    }
}

#[derive(Clone)]
struct Fake {
    manner: Manner,
    kept: Arc<Mutex<BTreeMap<String, String>>>,
    asked: Arc<AtomicU32>,
    /// All callers have gone.
    is_alone: Arc<AtomicBool>,
}

impl Fake {
    fn new(manner: Manner) -> Self {
        Self { manner, kept: Arc::default(), asked: Arc::default(), is_alone: Arc::default() }
    }

    fn with(self, key: &str) -> Self {
        self.lock().insert(account("default", BASE), key.to_owned());
        self
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, String>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self) -> Result<(), String> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        match self.manner {
            Manner::Error => Err("the collection is locked".to_owned()),
            Manner::Hang => {
                std::thread::sleep(Duration::from_hours(1));
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl SecretStore for Fake {
    fn get(&self, account: &str) -> Result<Option<Zeroizing<String>>, String> {
        self.answer()?;
        Ok(self.lock().get(account).cloned().map(Zeroizing::new))
    }

    fn set(&self, account: &str, secret: &str) -> Result<(), String> {
        self.answer()?;
        while self.manner == Manner::Late && !self.is_alone.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(5));
        }
        match self.manner {
            Manner::Forgets => None,
            Manner::Mangles => self.lock().insert(account.to_owned(), secret.to_ascii_uppercase()),
            _ => self.lock().insert(account.to_owned(), secret.to_owned()),
        };
        Ok(())
    }

    fn delete(&self, account: &str) -> Result<(), String> {
        self.answer()?;
        self.lock().remove(account);
        Ok(())
    }
}

/// The files of one user.
struct Home {
    dirs: Dirs,
    _dir: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |below: &str| Path::new(dir.path()).join(below);
        let dirs = Dirs { config: at("config"), state: at("state") };
        Self { dirs, _dir: dir }
    }

    fn stores(&self, fake: &Fake) -> Stores<'_> {
        Stores {
            file: FileStore(&self.dirs),
            keyring: Ok(Keyring::with_limit(Arc::new(fake.clone()), fake.manner.limit())),
        }
    }

    fn without(&self, why: &str) -> Stores<'_> {
        Stores { file: FileStore(&self.dirs), keyring: Err(why.to_owned()) }
    }
}

fn stored() -> StoredKey {
    StoredKey { origin: BASE.to_owned(), key: SecretKey::new(KEY) }
}

fn profile(store: &str) -> Profile {
    let mut profile = Profile::default();
    (profile.base_url, profile.store) = (Some(BASE.to_owned()), Some(store.to_owned()));
    profile
}

fn failure<T: std::fmt::Debug>(outcome: Result<T, Stop>) -> Failure {
    match outcome {
        Err(Stop::Failed(failure)) => *failure,
        other => panic!("{other:?}"),
    }
}

fn wish(named: Option<StoreName>, require: bool, configured: Option<&str>) -> Wish<'_> {
    Wish { named, require, configured }
}

#[tokio::test]
async fn a_key_goes_into_the_keyring_and_comes_back() {
    let (home, fake, base) = (Home::new(), Fake::new(Manner::Ok), BASE.parse().expect("a base URL"));
    let stores = home.stores(&fake);
    let choice = stores.choose(Wish::default(), "default", &base).await.expect("a choice");
    assert_eq!(choice, Choice::Keyring { required: false });
    let kept = stores.keep(&choice, "default", &stored()).await.expect("kept");
    assert!(matches!(kept.source, Source::Keyring { .. }) && kept.instead.is_none());
    assert_eq!(fake.lock().iter().next(), Some((&"default@https://dl.example.com".to_owned(), &KEY.to_owned())));
    assert!(stores.file().all().expect("a file").is_empty());
    let (key, source) =
        stores.find("default", Some(&profile(STORE_KEYRING)), &base).await.expect("a store").expect("a key");
    assert_eq!((key.expose(), source.to_string()), (KEY, "profile default in the keyring".to_owned()));
    assert!(stores.find("other", Some(&profile(STORE_KEYRING)), &base).await.expect("a store").is_none());
    stores.forget_in_keyring("default", BASE).await.expect("forgotten");
    stores.forget_in_keyring("default", BASE).await.expect("forgotten already");
    assert!(stores.find("default", Some(&profile(STORE_KEYRING)), &base).await.expect("a store").is_none());
}

/// P3: if a keyring cannot be used, the key goes into the file, with the reason; if the keyring is required, nowhere.
#[tokio::test]
async fn p3_a_keyring_that_fails_is_replaced_by_the_file_unless_it_is_required() {
    let base = BASE.parse().expect("a base URL");
    for (manner, why) in [
        (Manner::Error, "the collection is locked"),
        (Manner::Hang, "no response within 1 s"),
        (Manner::Forgets, "it does not return what was stored"),
        (Manner::Late, "no response within 3 s"),
    ] {
        let (home, fake) = (Home::new(), Fake::new(manner));
        let stores = home.stores(&fake);
        let choice = stores.choose(Wish::default(), "default", &base).await.expect("a choice");
        let kept = stores.keep(&choice, "default", &stored()).await.expect("kept");
        assert!(matches!(kept.source, Source::File { .. }), "{manner:?}");
        assert_eq!(kept.instead.as_deref(), Some(why), "{manner:?}");
        assert_eq!(stores.file().get("default").expect("a file").expect("a key").key.expose(), KEY);

        for asked in
            [wish(Some(StoreName::Keyring), false, None), wish(None, true, None), wish(None, true, Some(STORE_FILE))]
        {
            let home = Home::new();
            let stores = home.stores(&fake);
            let outcome = match stores.choose(asked, "default", &base).await {
                Ok(choice) => stores.keep(&choice, "default", &stored()).await.map(drop),
                Err(stop) => Err(stop),
            };
            let failure = failure(outcome);
            assert_eq!((failure.exit, failure.code.as_deref()), (Exit::Failure, Some("keyring_unavailable")));
            assert!(failure.message.contains(why), "{}", failure.message);
            assert!(stores.file().all().expect("a file").is_empty());
        }
    }
    let home = Home::new();
    let stores = home.without("no session bus");
    let choice = stores.choose(Wish::default(), "default", &base).await.expect("a choice");
    assert_eq!(choice, Choice::File { instead: Some("no session bus".to_owned()) });
    assert_eq!(failure(stores.choose(wish(None, true, None), "default", &base).await).exit, Exit::Failure);
}

/// A key that a keyring still holds, or stores after all callers have gone, is not used: the configuration decides.
#[tokio::test]
async fn a_late_write_changes_nothing() {
    let (home, fake, base) = (Home::new(), Fake::new(Manner::Late), BASE.parse().expect("a base URL"));
    let stores = home.stores(&fake);
    let choice = stores.choose(Wish::default(), "default", &base).await.expect("a choice");
    assert_eq!(choice, Choice::Keyring { required: false });
    let kept = stores.keep(&choice, "default", &stored()).await.expect("kept");
    assert!(matches!(kept.source, Source::File { .. }));
    let newer = StoredKey { key: SecretKey::new(OLDER), ..stored() };
    stores.file().put("default", &newer).expect("a newer key");
    fake.is_alone.store(true, Ordering::Relaxed);
    let start = std::time::Instant::now();
    while fake.lock().is_empty() {
        assert!(start.elapsed() < Duration::from_mins(1), "the late write comes");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let (key, _) = stores.find("default", Some(&profile(STORE_FILE)), &base).await.expect("a store").expect("a key");
    assert_eq!(key.expose(), OLDER);
}

/// A failing keyring is exit 4 with the reason, never an older copy of the key from elsewhere.
#[tokio::test]
async fn a_failing_read_is_no_older_copy() {
    let base = BASE.parse().expect("a base URL");
    for (manner, why) in [(Manner::Error, "the collection is locked"), (Manner::Hang, "no response within 1 s")] {
        let (home, fake) = (Home::new(), Fake::new(manner).with(KEY));
        let stores = home.stores(&fake);
        stores.file().put("default", &StoredKey { key: SecretKey::new(OLDER), ..stored() }).expect("an older copy");
        let failure = failure(stores.find("default", Some(&profile(STORE_KEYRING)), &base).await);
        assert_eq!((failure.exit, failure.code.as_deref()), (Exit::Auth, Some("keyring_unavailable")));
        assert!(failure.message.contains(why), "{}", failure.message);
    }
    let home = Home::new();
    let stores = home.without("DL_KEYRING is off");
    stores.file().put("default", &stored()).expect("an older copy");
    assert_eq!(failure(stores.find("default", Some(&profile(STORE_KEYRING)), &base).await).exit, Exit::Auth);
}

/// For a profile whose key is in the file, the keyring is never asked.
#[tokio::test]
async fn a_profile_with_a_file_leaves_the_keyring_alone() {
    let (home, fake, base) = (Home::new(), Fake::new(Manner::Hang), BASE.parse().expect("a base URL"));
    let stores = home.stores(&fake);
    for asked in [wish(None, false, Some(STORE_FILE)), wish(Some(StoreName::File), true, Some(STORE_KEYRING))] {
        let choice = stores.choose(asked, "default", &base).await.expect("a choice");
        assert_eq!(choice, Choice::File { instead: None });
        stores.keep(&choice, "default", &stored()).await.expect("kept");
    }
    for configured in [None, Some(&profile(STORE_FILE))] {
        stores.find("default", configured, &base).await.expect("a store").expect("a key");
    }
    assert_eq!(fake.asked.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_key_of_the_keyring_goes_to_its_origin_only() {
    let (home, fake) = (Home::new(), Fake::new(Manner::Ok).with(KEY));
    let stores = home.stores(&fake);
    let at = async |base: &str| {
        stores.find("default", Some(&profile(STORE_KEYRING)), &base.parse().expect("a base URL")).await
    };
    assert!(at("https://dl.example.com/prefix").await.expect("a store").is_some());
    for other in ["https://dl.example.com:8443", "https://example.com", "http://localhost"] {
        let failure = failure(at(other).await);
        assert_eq!((failure.exit, failure.code.as_deref()), (Exit::Auth, Some("origin_mismatch")), "{other}");
    }
    // The configuration was changed by hand: there is no key for the new origin.
    let mut moved = profile(STORE_KEYRING);
    moved.base_url = Some("https://example.com".to_owned());
    let found = stores.find("default", Some(&moved), &"https://example.com".parse().expect("a base URL")).await;
    assert!(found.expect("a store").is_none());
}

/// A mangled key is not left in the keyring.
#[tokio::test]
async fn a_keyring_that_gives_back_something_else_is_emptied() {
    let (home, fake) = (Home::new(), Fake::new(Manner::Mangles));
    let choice = Choice::Keyring { required: false };
    let kept = home.stores(&fake).keep(&choice, "default", &stored()).await.expect("it goes into the file");
    assert!(matches!(kept.source, Source::File { .. }) && kept.instead.is_some(), "{kept:?}");
    assert!(fake.lock().is_empty());
}
