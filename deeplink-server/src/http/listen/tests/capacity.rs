//! T3: a bounded number of connections, and recovery when file descriptors run out.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinSet;

use super::*;

const HEAD: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const HELD: &[u8] = b"GET /held HTTP/1.1\r\nHost: a\r\n\r\n";

async fn answers_within(stream: &mut TcpStream, time: Duration) -> bool {
    timeout(time, stream.read_u8()).await.is_ok_and(|byte| byte.is_ok())
}

/// A burst of connections waits in the backlog and is not refused.
#[tokio::test]
async fn a_burst_of_connections_waits_in_the_backlog() {
    let listener = bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = listener.local_addr().unwrap();
    let most = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    let count = most.trim().parse::<usize>().unwrap().min(300);
    let mut streams = Vec::new();
    for _ in 0..count {
        streams.push(timeout(Duration::from_millis(900), TcpStream::connect(address)).await.unwrap().unwrap());
    }
    assert_eq!(streams.len(), count);
}

/// T3: connections beyond the maximum wait, and are served when others end.
#[tokio::test]
async fn t3_connections_beyond_the_maximum_wait() {
    let server = Server::start(Limits { connections: 10, keep_alive_idle: 4 * MOMENT, ..limits() });
    let mut inside = Vec::new();
    for _ in 0..10 {
        let mut stream = server.send(HEAD).await;
        read_answer(&mut stream).await;
        inside.push(stream);
    }
    let mut waiting = vec![server.send(HEAD).await, server.send(HEAD).await, server.send(HEAD).await];
    assert!(!answers_within(&mut waiting[0], Duration::from_millis(500)).await, "there is no place");
    assert_eq!(server.open(), 10);
    for stream in &mut waiting {
        inside.pop();
        assert!(answers_within(stream, Duration::from_secs(4)).await, "a place is free, not that of an idle one");
    }
    assert_eq!(server.open(), 10);
}

/// T3: while connections are waiting, others that have been idle for five seconds are closed.
#[tokio::test]
async fn t3_idle_connections_are_closed_for_waiting_ones() {
    let server = Server::start(Limits { connections: 3, keep_alive_idle: Duration::from_secs(75), ..limits() });
    let mut inside = Vec::new();
    for _ in 0..3 {
        let mut stream = server.send(HEAD).await;
        read_answer(&mut stream).await;
        inside.push(stream);
    }
    let began = Instant::now();
    let mut waiting = server.send(HEAD).await;
    assert!(answers_within(&mut waiting, MOMENT).await);
    assert_ended("idle while crowded", began.elapsed(), Duration::from_secs(5));
}

/// This test's own binary, once more, with few descriptors and only [`t3_child`] to run.
struct Starved {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    address: SocketAddr,
}

const ROLE: &str = "DEEPLINK_TEST_STARVED";
/// The cost of waiting is that of the quietest of this many windows: others may still have been let in, or turned away,
/// in one.
const WINDOWS: u32 = 3;

impl Starved {
    async fn start() -> Self {
        let module = module_path!().split_once("::").unwrap().1;
        let mut child = Command::new("sh")
            .args(["-c", "ulimit -n 256; exec \"$0\" --exact \"$1\" --nocapture"])
            .arg(std::env::current_exe().unwrap())
            .arg(format!("{module}::t3_child"))
            .env(ROLE, "yes")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let address = said(&mut output, "address ").await.parse().unwrap();
        Self { child, input, output, address }
    }

    /// Processor time used so far, in hundredths of a second.
    fn processor_time(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id().unwrap())).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }

    fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id().unwrap())).unwrap().count()
    }

    /// Waits until no more connections come in.
    async fn until_steady(&self) {
        let (mut open, mut looks) = (0, 0);
        while looks < 50 {
            sleep(Duration::from_millis(10)).await;
            let now = self.descriptors();
            looks = if now == open { looks + 1 } else { 0 };
            open = now;
        }
    }
}

/// The rest of the next line that contains `begin`.
async fn said(output: &mut BufReader<ChildStdout>, begin: &str) -> String {
    let mut line = String::new();
    loop {
        line.clear();
        let read = timeout(2 * MOMENT, output.read_line(&mut line)).await.expect("a line in time").unwrap();
        assert!(read > 0, "the child has ended without saying {begin:?}");
        if let Some((_, rest)) = line.split_once(begin) {
            return rest.trim().to_owned();
        }
    }
}

/// The other process of the tests below; passes at once when it is not started by one.
#[test]
#[expect(clippy::print_stdout, reason = "the test that started this process reads it")]
#[expect(clippy::disallowed_methods, reason = "the variable is no setting; it tells the two processes apart")]
fn t3_child() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let _entered = runtime.enter();
    let server = Server::start(Limits { first_byte: 4 * MOMENT, ..limits() });
    println!("address {}", server.address);
    let mut held = Vec::new();
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        if line == "take the files" {
            while let Ok(file) = std::fs::File::open("/dev/null") {
                held.push(file);
            }
        } else {
            held.clear();
        }
        println!("done {line}");
    }
}

/// T3: 400 connections to a process with 256 descriptors: it keeps some for itself, the excess waits at little cost,
/// and it serves again once they are closed.
#[tokio::test]
async fn t3_more_connections_than_descriptors() {
    let mut starved = Starved::start().await;
    let mut clients = JoinSet::new();
    for _ in 0..400 {
        let connecting = TcpStream::connect(starved.address);
        clients.spawn(async move {
            // Where the kernel's queue is short, some of these are not even connected.
            if let Ok(mut stream) = connecting.await {
                // A crowded server closes silent connections, but cuts no request.
                drop(stream.write_all(HELD).await);
                pending::<()>().await;
            }
        });
    }
    timeout(MOMENT, starved.until_steady()).await.expect("no more connections");
    let mut used = u64::MAX;
    for _ in 0..WINDOWS {
        let before = starved.processor_time();
        sleep(Duration::from_secs(2)).await;
        used = used.min(starved.processor_time() - before);
    }
    assert!(used <= 10, "used {used}% of a processor in two seconds of waiting, twice five are allowed");
    // Descriptors are kept back: the process can still open files.
    let open = starved.descriptors();
    assert!((150..240).contains(&open), "{open} descriptors are in use");
    clients.shutdown().await;
    let mut stream = TcpStream::connect(starved.address).await.unwrap();
    stream.write_all(HEAD).await.unwrap();
    assert!(answers_within(&mut stream, MOMENT).await, "serves again");
    assert!(starved.child.try_wait().unwrap().is_none());
    starved.input.shutdown().await.unwrap();
}

/// T3: accepting pauses when all descriptors are in use, and resumes when some are free again.
#[tokio::test]
async fn t3_no_descriptor_left() {
    let mut starved = Starved::start().await;
    starved.input.write_all(b"take the files\n").await.unwrap();
    said(&mut starved.output, "done take").await;
    let mut stream = TcpStream::connect(starved.address).await.unwrap();
    stream.write_all(HEAD).await.unwrap();
    let mut used = u64::MAX;
    for _ in 0..WINDOWS {
        let before = starved.processor_time();
        assert!(!answers_within(&mut stream, Duration::from_secs(2)).await, "there is no descriptor for it");
        used = used.min(starved.processor_time() - before);
    }
    assert!(used <= 10, "used {used}% of a processor in two seconds of waiting, twice five are allowed");
    starved.input.write_all(b"give them back\n").await.unwrap();
    said(&mut starved.output, "done give").await;
    assert!(answers_within(&mut stream, MOMENT).await, "the one that waited is served");
}
