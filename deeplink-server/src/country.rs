//! Where visitors come from: the country that a proxy reports, or the one in a database of IP addresses. The address itself
//! is not stored.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use deeplink_core::time::Timestamp;
use deeplink_core::visitor::Country;
use http::header::HeaderName;
use maxminddb::{MaxMindDbError, PathElement, Reader, WithinOptions};

use crate::watched_file::{self, LoadError, Stamp};

/// Maximum size of a database, in bytes. It is kept in memory.
const MAX_BYTES: u64 = 512 << 20;
/// Networks, those without data too, that are looked at to see whether a database knows countries and can be read.
const PROBED: usize = 100_000;
/// Where databases of countries and of cities have it.
const PATH: [PathElement<'static>; 2] = [PathElement::Key("country"), PathElement::Key("iso_code")];

/// A database of countries by address, in MaxMind's format.
pub(crate) struct Database {
    path: PathBuf,
    reader: Reader<Vec<u8>>,
    /// Whether a lookup failed, which is told once.
    has_failed: AtomicBool,
}

impl Database {
    /// Loads the file.
    pub(crate) fn from_file(path: &Path) -> Result<(Arc<Self>, Stamp), LoadError> {
        let (bytes, stamp) = watched_file::read(path, MAX_BYTES)?;
        let reader = Reader::from_source(bytes)
            .map_err(|error| LoadError::Invalid(format!("not a MaxMind database: {error}")))?;
        let database = Self::of(path, reader);
        match database.has_countries() {
            Ok(true) => Ok((Arc::new(database), stamp)),
            Ok(false) => Err(LoadError::Invalid("no network in it has country.iso_code".into())),
            Err(error) => Err(LoadError::Invalid(format!("damaged: {error}"))),
        }
    }

    fn of(path: &Path, reader: Reader<Vec<u8>>) -> Self {
        Self { path: path.to_owned(), reader, has_failed: AtomicBool::new(false) }
    }

    /// Whether one of the first networks has a country; an error if any of these cannot be read.
    fn has_countries(&self) -> Result<bool, MaxMindDbError> {
        let networks = self.reader.networks(WithinOptions::default().include_networks_without_data())?;
        let mut is_known = false;
        for found in networks.take(PROBED) {
            is_known |= found?.decode_path::<&str>(&PATH)?.is_some();
        }
        Ok(is_known)
    }

    /// When it was made.
    fn built(&self) -> Timestamp {
        let seconds = i64::try_from(self.reader.metadata().build_epoch).unwrap_or(0);
        Timestamp::from_millis(seconds.saturating_mul(1_000))
    }

    /// Its type, and the day on which it was made.
    pub(crate) fn about(&self) -> String {
        let built = self.built().to_string();
        let day = built.split('T').next().unwrap_or_default();
        format!("{}, built {day}", self.reader.metadata().database_type)
    }

    fn country(&self, address: IpAddr) -> Country {
        let code = self.reader.lookup(address).and_then(|found| found.decode_path::<&str>(&PATH));
        match code {
            Ok(code) => code.map_or(Country::UNKNOWN, |code| Country::read(code.as_bytes())),
            // An IPv6 address, and a database of IPv4 addresses.
            Err(MaxMindDbError::InvalidInput { .. }) => Country::UNKNOWN,
            Err(error) => {
                self.tell_failure(&error);
                Country::UNKNOWN
            }
        }
    }

    /// Logs the first failed lookup: the others would repeat it with each click.
    fn tell_failure(&self, error: &MaxMindDbError) {
        if !self.has_failed.swap(true, Ordering::Relaxed) {
            let path = self.path.display();
            tracing::warn!(%path, %error, "country database is damaged; some clicks are counted without a country");
        }
    }
}

/// The database's file, and its content at startup until the service takes it: it is large, and replaced later.
#[derive(Clone)]
pub struct GeoFile {
    pub(crate) path: PathBuf,
    pub(crate) stamp: Stamp,
    /// When the database was made.
    pub(crate) built: Timestamp,
    about: String,
    initial: Arc<Mutex<Option<Arc<Database>>>>,
}

impl std::fmt::Debug for GeoFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.path.display(), self.about)
    }
}

impl GeoFile {
    /// Loads a database that has countries.
    pub fn read(path: &Path) -> Result<Self, String> {
        let (initial, stamp) =
            Database::from_file(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let (built, about, initial) = (initial.built(), initial.about(), Arc::new(Mutex::new(Some(initial))));
        Ok(Self { path: path.to_owned(), stamp, built, about, initial })
    }
}

/// Where the country comes from, as configured.
#[derive(Debug, Clone)]
pub enum CountrySource {
    /// A header that trusted proxies set.
    Header(HeaderName),
    /// A database of addresses.
    File(GeoFile),
}

/// Determines a visitor's country.
pub(crate) enum Countries {
    /// Nothing is configured.
    None,
    Header(HeaderName),
    /// `None` while the file cannot be read.
    File(RwLock<Option<Arc<Database>>>),
}

impl Countries {
    pub(crate) fn new(source: Option<&CountrySource>) -> Self {
        match source {
            None => Self::None,
            Some(CountrySource::Header(name)) => Self::Header(name.clone()),
            Some(CountrySource::File(file)) => {
                let initial = file.initial.lock().unwrap_or_else(PoisonError::into_inner).take();
                // A second service of the same settings, as in tests.
                let again = || Database::from_file(&file.path).ok().map(|(database, _)| database);
                Self::File(RwLock::new(initial.or_else(again)))
            }
        }
    }

    pub(crate) fn is_configured(&self) -> bool {
        !matches!(self, Self::None)
    }

    /// Replaces the database.
    pub(crate) fn replace(&self, database: Option<Arc<Database>>) {
        if let Self::File(current) = self {
            *current.write().unwrap_or_else(PoisonError::into_inner) = database;
        }
    }

    /// The country of an address, by the database.
    pub(crate) fn at(&self, address: IpAddr) -> Country {
        let Self::File(database) = self else { return Country::UNKNOWN };
        let database = database.read().unwrap_or_else(PoisonError::into_inner).clone();
        database.map_or(Country::UNKNOWN, |database| database.country(address))
    }
}

#[cfg(test)]
mod tests {
    use deeplink_doubles::geo::damaged_database;

    use super::*;

    const KNOWN: [(&str, Option<&str>); 2] = [("192.0.2.0/24", Some("DE")), ("2001:db8::/32", Some("JP"))];
    const LOST: &str = "198.51.100.0/24";

    /// A file with a single readable country was accepted, and its failed lookups were never told.
    #[test]
    fn a_damaged_database_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("countries.mmdb");
        std::fs::write(&path, damaged_database(&KNOWN, &[LOST])).expect("written");
        let refused = Database::from_file(&path).map(|_| ()).expect_err("damaged");
        assert!(matches!(&refused, LoadError::Invalid(text) if text.starts_with("damaged: ")), "{refused}");
        std::fs::write(&path, damaged_database(&KNOWN, &[])).expect("written");
        let (whole, _) = Database::from_file(&path).expect("valid");
        assert_eq!(whole.about(), "Test-Country, built 1970-01-01");
    }

    /// Damage beyond the networks that are looked at first.
    #[test]
    fn the_first_failed_lookup_is_told() {
        let reader = Reader::from_source(damaged_database(&KNOWN, &[LOST])).expect("a database");
        let database = Database::of(Path::new("countries.mmdb"), reader);
        let country = |address: &str| database.country(address.parse().expect("an address"));
        let has_failed = || database.has_failed.load(Ordering::Relaxed);
        assert_eq!(country("192.0.2.1"), Country::read(b"DE"));
        assert_eq!(country("203.0.113.1"), Country::UNKNOWN);
        assert!(!has_failed(), "an address that it does not know is no failure");
        assert_eq!(country("198.51.100.1"), Country::UNKNOWN);
        assert!(has_failed());
        assert_eq!(country("2001:db8::1"), Country::read(b"JP"), "the others are still known");
    }
}
