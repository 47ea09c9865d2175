//! Where visitors come from: the country that a proxy reports, or the one in a database of IP addresses. The address itself
//! is not stored.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use deeplink_core::time::Timestamp;
use deeplink_core::visitor::Country;
use http::header::HeaderName;
use maxminddb::{PathElement, Reader, WithinOptions};

use crate::watched_file::{self, LoadError, Stamp};

/// Maximum size of a database, in bytes. It is kept in memory.
const MAX_BYTES: u64 = 512 << 20;
/// Networks, those without data too, that are looked at to see whether a database knows countries.
const PROBED: usize = 100_000;
/// Where databases of countries and of cities have it.
const PATH: [PathElement<'static>; 2] = [PathElement::Key("country"), PathElement::Key("iso_code")];

/// A database of countries by address, in MaxMind's format.
pub(crate) struct Database(Reader<Vec<u8>>);

impl Database {
    /// Loads the file.
    pub(crate) fn from_file(path: &Path) -> Result<(Arc<Self>, Stamp), LoadError> {
        let (bytes, stamp) = watched_file::read(path, MAX_BYTES)?;
        let reader = Reader::from_source(bytes)
            .map_err(|error| LoadError::Invalid(format!("not a MaxMind database: {error}")))?;
        let database = Self(reader);
        if !database.has_countries() {
            return Err(LoadError::Invalid("no network in it has country.iso_code".into()));
        }
        Ok((Arc::new(database), stamp))
    }

    fn has_countries(&self) -> bool {
        let networks = self.0.networks(WithinOptions::default().include_networks_without_data()).into_iter().flatten();
        let mut codes = networks.take(PROBED).flatten().map(|found| found.decode_path::<&str>(&PATH));
        codes.any(|code| matches!(code, Ok(Some(_))))
    }

    /// Its type, and when it was made.
    pub(crate) fn about(&self) -> String {
        let metadata = self.0.metadata();
        let millis = i64::try_from(metadata.build_epoch).unwrap_or(0).saturating_mul(1_000);
        format!("{} of {}", metadata.database_type, Timestamp::from_millis(millis))
    }

    fn country(&self, address: IpAddr) -> Country {
        let code = self.0.lookup(address).and_then(|found| found.decode_path::<&str>(&PATH));
        code.ok().flatten().map_or(Country::UNKNOWN, |code| Country::read(code.as_bytes()))
    }
}

/// The database's file, and its content at startup until the service takes it: it is large, and replaced later.
#[derive(Clone)]
pub struct GeoFile {
    pub(crate) path: PathBuf,
    pub(crate) stamp: Stamp,
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
        let (about, initial) = (initial.about(), Arc::new(Mutex::new(Some(initial))));
        Ok(Self { path: path.to_owned(), stamp, about, initial })
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
