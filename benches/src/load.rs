//! Load over keep-alive connections: one request at a time on each, the next once the answer is read.

use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

type Failure = Box<dyn std::error::Error>;

/// The result of one round of load.
#[derive(Debug, Default)]
pub(crate) struct LoadResult {
    pub(crate) answers: u64,
    /// Answers whose status was not the expected one.
    pub(crate) wrong: u64,
    pub(crate) elapsed: Duration,
    latencies: Vec<u32>,
}

impl LoadResult {
    /// Records an answer.
    pub(crate) fn took(&mut self, time: Duration) {
        self.answers += 1;
        self.latencies.push(u32::try_from(time.as_micros()).unwrap_or(u32::MAX));
    }

    /// A quantile of the latencies, in milliseconds.
    pub(crate) fn quantile_millis(&mut self, quantile: f64) -> f64 {
        self.latencies.sort_unstable();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "an index from a share"
        )]
        let at = ((self.latencies.len() as f64) * quantile) as usize;
        self.latencies
            .get(at.min(self.latencies.len().saturating_sub(1)))
            .map_or(0.0, |micros| f64::from(*micros) / 1000.0)
    }
}

/// Makes the nth request of a connection.
pub(crate) type Requests = Rc<dyn Fn(usize, usize) -> Vec<u8>>;

/// Sends requests on `connections` connections for a while, or until each has sent `most`.
pub(crate) async fn run(
    address: &str,
    connections: usize,
    time: Duration,
    most: usize,
    status: &'static str,
    requests: Requests,
) -> Result<LoadResult, Failure> {
    on_all(address, connections, time, most, Duration::ZERO, status, requests).await
}

/// Sends a request on each connection at this interval, with the connections spread evenly over it.
pub(crate) async fn paced(
    address: &str,
    connections: usize,
    time: Duration,
    every: Duration,
    status: &'static str,
    requests: Requests,
) -> Result<LoadResult, Failure> {
    on_all(address, connections, time, usize::MAX, every, status, requests).await
}

/// How long requests that were due in time are sent after the end.
const OVERTIME: Duration = Duration::from_secs(2);

async fn on_all(
    address: &str,
    connections: usize,
    time: Duration,
    most: usize,
    every: Duration,
    status: &'static str,
    requests: Requests,
) -> Result<LoadResult, Failure> {
    let started = Instant::now();
    let local = tokio::task::LocalSet::new();
    let mut tasks = Vec::new();
    for connection in 0..connections {
        let (address, requests) = (address.to_owned(), Rc::clone(&requests));
        tasks.push(local.spawn_local(async move {
            tokio::time::sleep(
                every * u32::try_from(connection).unwrap_or(0) / u32::try_from(connections).unwrap_or(1),
            )
            .await;
            converse(&address, connection, started + time, most, every, status, &requests)
                .await
                .map_err(|error| error.to_string())
        }));
    }
    let mut all = LoadResult::default();
    local
        .run_until(async {
            for task in tasks {
                let seen = task.await??;
                all.answers += seen.answers;
                all.wrong += seen.wrong;
                all.latencies.extend(seen.latencies);
            }
            Ok::<_, Failure>(())
        })
        .await?;
    all.elapsed = started.elapsed();
    Ok(all)
}

async fn converse(
    address: &str,
    connection: usize,
    end: Instant,
    most: usize,
    every: Duration,
    status: &str,
    requests: &Requests,
) -> Result<LoadResult, Failure> {
    let mut asked = Connection::to(address).await?;
    let mut seen = LoadResult::default();
    let began = Instant::now();
    for nth in 0..most {
        let request = requests(connection, nth);
        let mut sent = Instant::now();
        if every > Duration::ZERO {
            let due = began + every * u32::try_from(nth).unwrap_or(u32::MAX);
            tokio::time::sleep_until(due.into()).await;
            // What waited for an earlier answer counts from when it was due; a late timer does not count.
            sent = if sent > due { due } else { Instant::now() };
        }
        // A server that cannot keep up is not asked for much longer than the others.
        if sent >= end {
            break;
        }
        if Instant::now() >= end + OVERTIME {
            // It would have waited at least this long.
            seen.took(sent.elapsed());
            break;
        }
        let right = asked.ask(&request, status).await?;
        seen.took(sent.elapsed());
        seen.wrong += u64::from(!right);
    }
    Ok(seen)
}

/// A keep-alive connection.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub(crate) async fn to(address: &str) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(64 << 10) })
    }

    /// Sends a request and reads the answer; returns whether it has the expected status.
    pub(crate) async fn ask(&mut self, request: &[u8], status: &str) -> Result<bool, Failure> {
        self.stream.write_all(request).await?;
        let (length, right) = read_answer(&mut self.stream, &mut self.buffer, status).await?;
        self.buffer.drain(..length);
        Ok(right)
    }
}

/// Reads one answer; returns its length in the buffer and whether it has the expected status.
async fn read_answer(stream: &mut TcpStream, buffer: &mut Vec<u8>, status: &str) -> Result<(usize, bool), Failure> {
    loop {
        if let Some(head) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            let text = String::from_utf8_lossy(&buffer[..head]);
            let body: usize = text
                .split("\r\n")
                .find_map(|line| line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("content-length")))
                .map_or(Ok(0), |(_, value)| value.trim().parse())?;
            let end = head + 4 + body;
            if buffer.len() >= end {
                return Ok((end, text.get(9..12) == Some(status)));
            }
        }
        if stream.read_buf(buffer).await? == 0 {
            return Err("the server closed a connection".into());
        }
    }
}

/// One request on its own connection; returns status and body.
pub(crate) async fn once(address: &str, request: &[u8]) -> Result<(String, String), Failure> {
    let (status, body) = whole(address, request).await?;
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}

/// The same for a binary body.
pub(crate) async fn whole(address: &str, request: &[u8]) -> Result<(String, Vec<u8>), Failure> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(request).await?;
    let mut buffer = Vec::new();
    let (length, _) = read_answer(&mut stream, &mut buffer, "").await?;
    buffer.truncate(length);
    let head = buffer.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(length);
    let status = String::from_utf8_lossy(buffer.get(9..12).unwrap_or_default()).into_owned();
    Ok((status, buffer.get(head + 4..).unwrap_or_default().to_vec()))
}
