//! Queries the domain name system. "There is no such record" and "there was no answer" are different results, because
//! only the first may cost a tenant their domain.
//!
//! Nothing is cached between two queries: someone who has just fixed a record and asks again must see it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hickory_resolver::config::{NameServerConfig, ResolverConfig, ResolverOpts};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::xfer::{DnsHandle, FirstAnswer};
use hickory_resolver::net::{DnsError, NetError, NoRecords};
use hickory_resolver::proto::ProtoError;
use hickory_resolver::proto::op::{DnsRequestOptions, Query, ResponseCode};
use hickory_resolver::proto::rr::rdata::{A, AAAA, CNAME};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use hickory_resolver::{NameServerPool, PoolContext, TlsConfig, system_conf};

/// How long a lookup may take, with all CNAME records that it follows.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long a server may take before it is asked once more.
const TRY_TIMEOUT: Duration = Duration::from_millis(2_400);
/// Maximum CNAME records that are followed.
const MAX_CNAMES: usize = 8;

/// Why there is no answer. It says nothing about what is in the domain name system.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unanswered {
    /// No server answered.
    #[error("no name server responded within 5 seconds")]
    InTime,
    /// A server said that it cannot answer.
    #[error("the name server could not answer ({0})")]
    Refused(ResponseCode),
    /// A server only named others that might know.
    #[error("the name server returned only a referral")]
    Referred,
    /// There are too many CNAME records.
    #[error("the name has a chain of more than 8 CNAME records")]
    TooFar,
    /// The answer is incomplete or invalid.
    #[error("the name server's response could not be read")]
    Broken(#[source] NetError),
    /// There is no server to ask.
    #[error("no name server is configured")]
    NoServer(#[source] NetError),
}

impl From<ProtoError> for Unanswered {
    fn from(error: ProtoError) -> Self {
        Self::Broken(error.into())
    }
}

/// What a name's TXT records say.
#[derive(Debug, Default)]
pub(crate) struct TxtRecords {
    /// Each record's value, its strings joined. Empty: there certainly is no such record.
    pub(crate) values: Vec<String>,
    /// Whether CNAME records led out of the domain that was asked about. What is there may not be public: the service's
    /// resolver can see names that the public cannot.
    pub(crate) is_elsewhere: bool,
}

/// The DNS client.
#[derive(Debug, Clone)]
pub(crate) struct Dns {
    /// Replaces the system's servers.
    server: Option<SocketAddr>,
}

impl Dns {
    /// Asks this server, or the system's if there is none.
    pub(crate) fn new(server: Option<SocketAddr>) -> Self {
        Self { server }
    }

    /// The values of a name's TXT records; its first label is below the domain in question.
    pub(crate) async fn txt(&self, name: &str) -> Result<TxtRecords, Unanswered> {
        in_time(async {
            let name = absolute(name)?;
            let domain = name.base_name();
            let (values, place) = self.follow(name, RecordType::TXT, text).await?;
            Ok(TxtRecords { values, is_elsewhere: !domain.zone_of(&place) })
        })
        .await
    }

    /// The addresses of a host, of both kinds; none if it certainly has none. If one kind cannot be determined, the
    /// result is an error: every address is checked, or none.
    pub(crate) async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, Unanswered> {
        in_time(async {
            let name = absolute(host)?;
            let v6 = self.follow(name.clone(), RecordType::AAAA, address);
            let ((v6, _), (v4, _)) = tokio::try_join!(v6, self.follow(name, RecordType::A, address))?;
            Ok([v6, v4].concat())
        })
        .await
    }

    /// The values of a name's records of one kind, and the name that has them, at the end of its CNAME records.
    async fn follow<T>(
        &self,
        mut name: Name,
        kind: RecordType,
        value: fn(&Record) -> Option<T>,
    ) -> Result<(Vec<T>, Name), Unanswered> {
        let pool = self.pool().map_err(Unanswered::NoServer)?;
        let mut hops = 0;
        loop {
            let records = ask(&pool, &name, kind).await?;
            let mut led_on = false;
            loop {
                let of_name = || records.iter().filter(|record| record.name == name);
                let values: Vec<_> = of_name().filter_map(value).collect();
                if !values.is_empty() {
                    return Ok((values, name));
                }
                let Some(target) = of_name().find_map(target).cloned() else { break };
                hops += 1;
                if hops > MAX_CNAMES {
                    return Err(Unanswered::TooFar);
                }
                (name, led_on) = (target, true);
            }
            if !led_on {
                return Ok((Vec::new(), name));
            }
        }
    }

    /// Fresh connections for each query, so that none waits behind another.
    fn pool(&self) -> Result<NameServerPool<TokioRuntimeProvider>, NetError> {
        let (servers, mut options) = match self.server {
            Some(server) => (vec![at(server)], ResolverOpts::default()),
            None => {
                let (config, options): (ResolverConfig, _) = system_conf::read_system_conf()?;
                (config.name_servers, options)
            }
        };
        options.timeout = TRY_TIMEOUT;
        let context = Arc::new(PoolContext::new(options, TlsConfig::new()?));
        Ok(NameServerPool::from_config(servers, context, TokioRuntimeProvider::default()))
    }
}

async fn in_time<T>(answer: impl Future<Output = Result<T, Unanswered>>) -> Result<T, Unanswered> {
    tokio::time::timeout(TIMEOUT, answer).await.unwrap_or(Err(Unanswered::InTime))
}

/// With the final dot, so that no search list is applied.
fn absolute(name: &str) -> Result<Name, Unanswered> {
    Ok(Name::from_ascii(format!("{}.", name.trim_end_matches('.')))?)
}

fn at(server: SocketAddr) -> NameServerConfig {
    let mut config = NameServerConfig::udp_and_tcp(server.ip());
    config.connections.iter_mut().for_each(|connection| connection.port = server.port());
    config
}

/// The records that answer a query; none if there certainly is no such record.
async fn ask(
    pool: &NameServerPool<TokioRuntimeProvider>,
    name: &Name,
    kind: RecordType,
) -> Result<Vec<Record>, Unanswered> {
    let mut tries = 2;
    loop {
        let query = Query::query(name.clone(), kind);
        tries -= 1;
        match pool.lookup(query, DnsRequestOptions::default()).first_answer().await {
            Ok(answer) => match answer.response_code {
                ResponseCode::NoError | ResponseCode::NXDomain => return Ok(answer.into_message().answers),
                other => return Err(Unanswered::Refused(other)),
            },
            Err(NetError::Timeout | NetError::Io(_) | NetError::NoConnections | NetError::Busy) if tries > 0 => {}
            Err(error) => return nothing(error),
        }
    }
}

/// Tells "there is none" from "there was no answer".
fn nothing(error: NetError) -> Result<Vec<Record>, Unanswered> {
    match error {
        NetError::Dns(DnsError::NoRecordsFound(NoRecords { response_code, ns, soa, .. })) => match response_code {
            ResponseCode::NXDomain => Ok(Vec::new()),
            // Other name servers and no SOA record: this one was never responsible for the name.
            ResponseCode::NoError if ns.is_some() && soa.is_none() => Err(Unanswered::Referred),
            ResponseCode::NoError => Ok(Vec::new()),
            other => Err(Unanswered::Refused(other)),
        },
        NetError::Dns(DnsError::ResponseCode(code)) => Err(Unanswered::Refused(code)),
        NetError::Timeout => Err(Unanswered::InTime),
        other => Err(Unanswered::Broken(other)),
    }
}

/// The value of a TXT record. A long one comes as several strings, which form one text (RFC 7208, section 3.3).
fn text(record: &Record) -> Option<String> {
    let RData::TXT(txt) = &record.data else { return None };
    Some(String::from_utf8_lossy(&txt.txt_data.concat()).into_owned())
}

fn address(record: &Record) -> Option<IpAddr> {
    match &record.data {
        RData::A(A(address)) => Some((*address).into()),
        RData::AAAA(AAAA(address)) => Some((*address).into()),
        _ => None,
    }
}

fn target(record: &Record) -> Option<&Name> {
    let RData::CNAME(CNAME(target)) = &record.data else { return None };
    Some(target)
}
