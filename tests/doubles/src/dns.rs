//! A name server in this process; the test chooses its records and how it misbehaves.
//!
//! It answers as a recursive resolver would, over UDP and TCP on one port. A name that was not set does not exist.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hickory_proto::op::{Message, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA, CNAME, NS, TXT};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinHandle;

/// How a name is answered for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// With its records.
    Well,
    /// "The server failed".
    ServFail,
    /// "You may not ask".
    Refused,
    /// "There is no such name", whatever is set.
    NxDomain,
    /// Not at all; a TCP connection stays open.
    Silently,
    /// Truncated over UDP, complete over TCP.
    Truncated,
    /// Truncated, over TCP too.
    TruncatedAlways,
    /// With bytes that are not a DNS message.
    Garbage,
    /// With the records, under another request's id.
    WrongId,
    /// With the records, as the answer to another question.
    WrongQuestion,
    /// A referral to another server, without an answer.
    Referral,
}

#[derive(Debug, Clone, Default)]
struct Entry {
    records: Vec<RData>,
    /// The addresses from the first query for an IPv4 address on.
    then: Option<Vec<RData>>,
    how: Option<How>,
    late: Duration,
}

#[derive(Debug, Default)]
struct Zone {
    entries: HashMap<String, Entry>,
    asked: HashMap<String, usize>,
    /// Whether the client has to follow each CNAME record itself.
    one_by_one: bool,
}

/// A name server that runs until it is dropped.
pub struct Dns {
    address: SocketAddr,
    zone: Arc<Mutex<Zone>>,
    tasks: [JoinHandle<()>; 2],
}

impl Drop for Dns {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Dns {
    /// Starts a server that knows no name.
    pub async fn start() -> Self {
        let zone = Arc::<Mutex<Zone>>::default();
        // A port that is free for both; another process may take the second one in between.
        let (udp, tcp) = loop {
            let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a TCP port");
            if let Ok(udp) = UdpSocket::bind(tcp.local_addr().expect("an address")).await {
                break (udp, tcp);
            }
        };
        let address = udp.local_addr().expect("an address");
        let tasks =
            [tokio::spawn(over_udp(Arc::new(udp), Arc::clone(&zone))), tokio::spawn(over_tcp(tcp, Arc::clone(&zone)))];
        Self { address, zone, tasks }
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    fn zone(&self) -> MutexGuard<'_, Zone> {
        lock(&self.zone)
    }

    fn entry(&self, name: &str, change: impl FnOnce(&mut Entry)) {
        change(self.zone().entries.entry(key(name)).or_default());
    }

    /// Gives a name these TXT values and no others, each as one string.
    pub fn txt(&self, name: &str, values: &[&str]) {
        let values: Vec<_> = values.iter().map(|value| vec![value.as_bytes()]).collect();
        self.txt_strings(name, &values);
    }

    /// Gives a name TXT values that are made of several strings.
    pub fn txt_strings(&self, name: &str, values: &[Vec<&[u8]>]) {
        let records = values.iter().map(|strings| RData::TXT(TXT::from_bytes(strings.clone()))).collect();
        self.entry(name, |entry| entry.records = records);
    }

    /// Gives a name these addresses and no others.
    pub fn addresses(&self, name: &str, addresses: &[&str]) {
        self.entry(name, |entry| entry.records = records(addresses));
    }

    /// Gives a name other addresses from the query after next on.
    pub fn then_addresses(&self, name: &str, addresses: &[&str]) {
        self.entry(name, |entry| entry.then = Some(records(addresses)));
    }

    /// Makes a name a CNAME of a target.
    pub fn cname(&self, name: &str, target: &str) {
        let target = Name::from_ascii(format!("{}.", key(target))).expect("a name");
        self.entry(name, |entry| entry.records = vec![RData::CNAME(CNAME(target))]);
    }

    /// Makes a name exist, with the records it has if any, and sets how it is answered from now on.
    pub fn answer(&self, name: &str, how: How) {
        self.entry(name, |entry| entry.how = Some(how));
    }

    /// Delays the answers for a name.
    pub fn late(&self, name: &str, by: Duration) {
        self.entry(name, |entry| entry.late = by);
    }

    /// Forgets a name: it does not exist.
    pub fn remove(&self, name: &str) {
        self.zone().entries.remove(&key(name));
    }

    /// Makes the client follow CNAME records one by one, instead of getting the whole chain in one answer.
    pub fn one_by_one(&self) {
        self.zone().one_by_one = true;
    }

    /// The number of queries for a name.
    pub fn asked(&self, name: &str) -> usize {
        self.zone().asked.get(&key(name)).copied().unwrap_or(0)
    }
}

fn records(addresses: &[&str]) -> Vec<RData> {
    let record = |text: &&str| match text.parse().expect("an address") {
        IpAddr::V4(address) => RData::A(A(address)),
        IpAddr::V6(address) => RData::AAAA(AAAA(address)),
    };
    addresses.iter().map(record).collect()
}

fn lock(zone: &Mutex<Zone>) -> MutexGuard<'_, Zone> {
    zone.lock().unwrap_or_else(PoisonError::into_inner)
}

fn key(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

/// The answer and its delay; `None` is silence.
struct Answer {
    bytes: Option<Vec<u8>>,
    late: Duration,
}

async fn over_udp(socket: Arc<UdpSocket>, zone: Arc<Mutex<Zone>>) {
    let mut buffer = [0; 4096];
    loop {
        let Ok((length, from)) = socket.recv_from(&mut buffer).await else { continue };
        let answer = lock(&zone).answer(&buffer[..length], Wire::Udp);
        let socket = Arc::clone(&socket);
        tokio::spawn(async move {
            tokio::time::sleep(answer.late).await;
            if let Some(bytes) = answer.bytes {
                drop(socket.send_to(&bytes, from).await);
            }
        });
    }
}

async fn over_tcp(listener: TcpListener, zone: Arc<Mutex<Zone>>) {
    loop {
        let Ok((socket, _)) = listener.accept().await else { continue };
        tokio::spawn(one_connection(socket, Arc::clone(&zone)));
    }
}

async fn one_connection(mut socket: TcpStream, zone: Arc<Mutex<Zone>>) -> std::io::Result<()> {
    loop {
        let mut question = vec![0; usize::from(socket.read_u16().await?)];
        socket.read_exact(&mut question).await?;
        let answer = lock(&zone).answer(&question, Wire::Tcp);
        tokio::time::sleep(answer.late).await;
        if let Some(bytes) = answer.bytes {
            socket.write_u16(u16::try_from(bytes.len()).expect("a short answer")).await?;
            socket.write_all(&bytes).await?;
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wire {
    Udp,
    Tcp,
}

impl Zone {
    fn answer(&mut self, question: &[u8], wire: Wire) -> Answer {
        let nothing = Answer { bytes: None, late: Duration::ZERO };
        let Ok(message) = Message::from_vec(question) else { return nothing };
        let Some(query) = message.queries.first().cloned() else { return nothing };
        let name = key(&query.name().to_ascii());
        *self.asked.entry(name.clone()).or_default() += 1;
        let entry = self.entries.get(&name).cloned().unwrap_or_default();
        let mut answer = Message::response(message.metadata.id, OpCode::Query);
        answer.metadata.recursion_desired = true;
        answer.metadata.recursion_available = true;
        answer.add_query(query.clone());
        let (records, code) = self.follow(&query);
        answer.metadata.response_code = code;
        if query.query_type() == RecordType::A
            && let Some(changed) = self.entries.get_mut(&name)
            && let Some(then) = changed.then.take()
        {
            changed.records = then;
        }
        let how = entry.how.unwrap_or(How::Well);
        match how {
            How::Silently => return nothing,
            How::Garbage => return Answer { bytes: Some(garbage(message.metadata.id)), late: entry.late },
            How::ServFail => answer.metadata.response_code = ResponseCode::ServFail,
            How::Refused => answer.metadata.response_code = ResponseCode::Refused,
            How::NxDomain => answer.metadata.response_code = ResponseCode::NXDomain,
            How::Truncated if wire == Wire::Udp => answer.metadata.truncation = true,
            How::TruncatedAlways => answer.metadata.truncation = true,
            How::Referral => {
                let server = Name::from_ascii("ns.example.net.").expect("a name");
                let to = RData::NS(NS(server));
                answer.metadata.response_code = ResponseCode::NoError;
                answer.add_authority(Record::from_rdata(query.name().base_name(), 1, to));
            }
            How::WrongId => {
                answer.metadata.id = answer.metadata.id.wrapping_add(1);
                answer.add_answers(records);
            }
            How::WrongQuestion => {
                answer.queries =
                    vec![Query::query(Name::from_ascii("other.example.com.").expect("a name"), RecordType::TXT)];
                answer.add_answers(records);
            }
            How::Well | How::Truncated => _ = answer.add_answers(records),
        }
        let mut bytes = answer.to_vec().expect("an answer");
        if wire == Wire::Udp && bytes.len() > usize::from(message.max_payload()) {
            answer.answers.clear();
            answer.metadata.truncation = true;
            bytes = answer.to_vec().expect("an answer");
        }
        Answer { bytes: Some(bytes), late: entry.late }
    }

    /// The records of a name, and those that its CNAME records lead to.
    fn follow(&self, query: &Query) -> (Vec<Record>, ResponseCode) {
        let (mut found, mut name) = (Vec::new(), query.name().clone());
        for _ in 0..32 {
            let Some(entry) = self.entries.get(&key(&name.to_ascii())) else { return (found, ResponseCode::NXDomain) };
            let mut next = None;
            for data in &entry.records {
                if let RData::CNAME(CNAME(target)) = data {
                    next = Some(target.clone());
                }
                if data.record_type() == query.query_type() || next.is_some() {
                    found.push(Record::from_rdata(name.clone(), 1, data.clone()));
                }
            }
            match next {
                Some(next) if !self.one_by_one => name = next,
                _ => break,
            }
        }
        (found, ResponseCode::NoError)
    }
}

/// The header of a truncated message.
fn garbage(id: u16) -> Vec<u8> {
    let [high, low] = id.to_be_bytes();
    [&[high, low, 0x81, 0x80, 0, 1, 0, 9, 0, 0, 0, 0][..], &[0xff; 20]].concat()
}
