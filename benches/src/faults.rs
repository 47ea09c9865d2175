//! Clicks through trouble, on PostgreSQL: two nodes with one hot link, and a database that is away. Both take as long as
//! the plan's seconds say; every click must be counted once.

use std::time::{Duration, Instant};

use sqlx::{Connection, PgConnection};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::clicks::counted;
use crate::load;
use crate::scenario::{BROWSER, CONNECTIONS, Failure, Plan, gets_among, ratio};
use crate::service::{Service, write_private};
use crate::shares;

const LINK: &str = r#"{"web_url":"https://example.com/landing/page"}"#;
/// 32 bytes in base64, which nodes share.
const MASTER_KEY: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
/// 5,000 requests a second on all connections.
const PACE: Duration = Duration::from_micros(12_800);
/// How long everything may take to be counted afterwards.
const PATIENCE: Duration = Duration::from_mins(5);

/// The settings of each node.
fn settings(database: &str) -> [(&'static str, &str); 2] {
    [("DEEPLINK_DATABASE_URL", database), ("DEEPLINK_MASTER_KEY", MASTER_KEY)]
}

async fn service(plan: &Plan, database: &str, key: &str) -> Result<Service, Failure> {
    let folder = tempfile::tempdir_in(".")?;
    write_private(&folder.path().join("key"), key)?;
    Service::on(plan, folder, &settings(database)).await
}

async fn new_database(plan: &Plan, name: &str) -> Result<(String, String), Failure> {
    let server = plan.postgres.as_deref().ok_or("this scenario needs --postgres")?;
    let database = shares::database(server, name).await?;
    let folder = tempfile::tempdir_in(".")?;
    let key = shares::account(plan, &folder.path().join("data"), &settings(&database), name).await?;
    Ok((database, key))
}

/// Redirects of one link at a steady pace.
async fn visits(address: &str, seconds: u64) -> Result<load::LoadResult, Failure> {
    let requests = gets_among(1, "localhost", "/r/", "bench-", BROWSER);
    let seen = load::paced(address, CONNECTIONS, Duration::from_secs(seconds), PACE, "302", requests).await?;
    if seen.wrong > 0 {
        return Err(format!("{} answers were not 302", seen.wrong).into());
    }
    Ok(seen)
}

/// Until a report has this many clicks.
async fn until_counted(service: &Service, clicks: u64) -> Result<Duration, Failure> {
    let began = Instant::now();
    loop {
        // Reports are refused while the database is away.
        let now = counted(service, 1).await.unwrap_or(0);
        if now == clicks {
            // None twice.
            tokio::time::sleep(Duration::from_secs(3)).await;
            let later = counted(service, 1).await?;
            return if later == clicks { Ok(began.elapsed()) } else { Err(format!("{later} of {clicks}").into()) };
        }
        if began.elapsed() > PATIENCE {
            return Err(format!("{now} of {clicks} clicks are counted").into());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Two nodes are asked for one link.
pub(crate) async fn nodes(plan: &Plan) -> Result<(), Failure> {
    let (database, key) = new_database(plan, "nodes").await?;
    let nodes = [service(plan, &database, &key).await?, service(plan, &database, &key).await?];
    nodes[0].make_links("bench-", 1, LINK).await?;
    let [first, second] = [0, 1].map(|node| visits(&nodes[node].server.address, plan.seconds));
    let (mut first, mut second) = tokio::try_join!(first, second)?;
    let answered = first.answers + second.answers;
    let after = until_counted(&nodes[0], answered).await?;
    let mut server = PgConnection::connect(&database).await?;
    let deadlocks: i64 =
        sqlx::query_scalar("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
            .fetch_one(&mut server)
            .await?;
    println!(
        "nodes      {answered} clicks of one link through two nodes in {} s, all counted once {:.1} s after, {deadlocks} deadlocks, p99 {:.1} and {:.1} ms",
        plan.seconds,
        after.as_secs_f64() - 3.0,
        first.quantile_millis(0.99),
        second.quantile_millis(0.99)
    );
    for node in nodes {
        node.server.stop().await?;
    }
    Ok(())
}

/// The database is away for the whole time.
pub(crate) async fn outage(plan: &Plan) -> Result<(), Failure> {
    let (database, key) = new_database(plan, "outage").await?;
    let (is_there, line) = watch::channel(true);
    let (forwarded, _forwarder) = forward(&database, line).await?;
    let service = service(plan, &forwarded, &key).await?;
    service.make_links("bench-", 1, LINK).await?;
    let mut answered = visits(&service.server.address, 2).await?.answers;
    until_counted(&service, answered).await?;
    let before = service.server.memory_mb()?.0;
    is_there.send(false)?;
    let mut seen = visits(&service.server.address, plan.seconds).await?;
    answered += seen.answers;
    let (during, behind) = (service.server.memory_mb()?.0, service.folder_mb()?);
    is_there.send(true)?;
    let after = until_counted(&service, answered).await?;
    println!(
        "outage     {:.0} redirects a second for {} s without the database, p99 {:.1} ms, RSS {before:.0} to {during:.0} MB, {behind:.0} MB in files; all {answered} counted once {:.1} s after it was back",
        ratio(seen.answers, seen.elapsed.as_secs_f64()),
        plan.seconds,
        seen.quantile_millis(0.99),
        after.as_secs_f64() - 3.0
    );
    service.server.stop().await
}

/// Forwards connections to the server of this URL while `is_there`; else they are cut and refused. Returns the URL by way
/// of it.
async fn forward(url: &str, is_there: watch::Receiver<bool>) -> Result<(String, JoinHandle<()>), Failure> {
    let (before, database) = url.rsplit_once('/').ok_or("no database in the URL")?;
    let (scheme, host) = before
        .rsplit_once('@')
        .map_or_else(
            || before.split_once("//").map(|(scheme, host)| (format!("{scheme}//"), host)),
            |(user, host)| Some((format!("{user}@"), host)),
        )
        .ok_or("no host in the URL")?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let by_way_of = format!("{scheme}{}/{database}", listener.local_addr()?);
    let host = host.to_owned();
    let forwarding = tokio::spawn(async move {
        while let Ok((mut inner, _)) = listener.accept().await {
            let (host, mut is_there) = (host.clone(), is_there.clone());
            tokio::spawn(async move {
                if !*is_there.borrow() {
                    return;
                }
                let Ok(mut outer) = TcpStream::connect(&host).await else { return };
                tokio::select! {
                    _ = copy_bidirectional(&mut inner, &mut outer) => {}
                    _ = is_there.wait_for(|is_there| !is_there) => {}
                }
            });
        }
    });
    Ok((by_way_of, forwarding))
}
