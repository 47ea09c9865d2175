//! The oracle itself: a check that cannot fail would prove nothing.

use sqlx::{AssertSqlSafe, Executor};

use crate::home::Home;
use crate::journal::{Kind, Outcome};
use crate::load::{BULK, Client, Load, Mix};
use crate::machine::{alone, seed};
use crate::node::Node;
use crate::oracle;
use crate::store::{self, Conn};

/// After a clean stop the oracle finds nothing; after each way of tampering with the database it finds exactly that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f0_the_oracle_finds_what_is_lost_doubled_torn_refused_or_never_sent() {
    let _alone = alone();
    let seed = seed();
    let home = Home::new().await;
    let node = Node::start(&home).await;
    let load = Load::start((0..4).map(|number| Client::new(&home, &node, seed, number, Mix::ALL)).collect());
    load.go_on(100, &[Kind::Write, Kind::Visit]).await;
    let mut clients = load.end().await;
    for client in &mut clients {
        // At least one of each that no client changes later, however little was done so far.
        assert!(client.create(BULK).await, "the server answers");
        let link =
            client.journal.links.iter().find(|(_, known)| known.possible == [Some(0)]).expect("a link").0.clone();
        assert!(client.visit(&link).await, "the server answers");
    }
    node.stop().await;
    // What a busy machine cannot store at a stop is stored after the next start.
    let node = Node::start(&home).await;
    store::wait_for_clicks(&home, &node).await;
    node.stop().await;
    let found = store::read(&home.database).await;
    oracle::judge(&mut clients, &found).assert_clean("before anything was tampered with");

    let batch = |client: &Client| {
        let is_whole = |ids: &[String]| ids.len() > 1 && ids.iter().all(|id| client.journal.version(id) == Some(0));
        let mut creations = client.journal.creations.iter().enumerate();
        let found = creations.find_map(|(at, creation)| match &creation.outcome {
            Outcome::There(ids) if is_whole(ids) => Some((at, ids.clone())),
            _ => None,
        });
        found.expect("an unchanged batch")
    };
    let (torn, torn_ids) = batch(&clients[0]);
    let (_, lost_ids) = batch(&clients[1]);
    let (refused, _) = batch(&clients[2]);
    // The client's state if the first batch had not been answered and the third had been refused.
    for id in &torn_ids {
        clients[0].journal.links.remove(id);
    }
    clients[0].journal.creations[torn].outcome = Outcome::Open;
    clients[2].journal.creations[refused].outcome = Outcome::Nowhere;
    let answered = |client: &Client| {
        let visits = client.journal.visits.iter().filter(|visit| visit.answered);
        visits.map(|visit| crate::journal::referer(&visit.token)).next().expect("a redirect")
    };
    let (lost_click, doubled_click) = (answered(&clients[1]), answered(&clients[3]));
    let of_click = |referer: &str| format!("referer = (SELECT hash FROM visitor_texts WHERE text = '{referer}')");
    let statements = [
        format!("DELETE FROM links WHERE link_id = '{}'", torn_ids[0]),
        format!("DELETE FROM links WHERE link_id = '{}'", lost_ids[0]),
        format!("UPDATE links SET metadata = '{{}}' WHERE link_id = '{}'", lost_ids[1]),
        format!("DELETE FROM clicks WHERE {}", of_click(&lost_click)),
        format!(
            "INSERT INTO clicks (position, link, at, kind, platform, agent, referer)
            SELECT (SELECT MAX(position) + 1 FROM clicks), link, at, kind, platform, agent, referer FROM clicks WHERE {}",
            of_click(&doubled_click)
        ),
        "INSERT INTO click_hours
            (link, hour, visitor, clicks, first_position, last_position, first_at, last_at) VALUES (1, 0, 0, 5, 1, 1, 0, 0)"
            .to_owned(),
        format!("UPDATE links SET web_url = 'https://example.com/never-sent/0' WHERE link_id = '{}'", lost_ids[2]),
    ];
    let mut conn = store::connect(&home.database).await;
    for statement in statements {
        let statement = AssertSqlSafe(statement);
        match &mut conn {
            Conn::Sqlite(conn) => conn.execute(statement).await.map(|done| done.rows_affected()),
            Conn::Postgres(conn) => conn.execute(statement).await.map(|done| done.rows_affected()),
        }
        .map(|rows| assert_eq!(rows, 1))
        .expect("the statement runs");
    }
    store::close(conn).await;
    let verdict = oracle::judge(&mut clients, &store::read(&home.database).await);
    for sign in [
        "torn: 19 of 20".to_owned(),
        format!("lost: {} of", lost_ids[0]),
        format!("lost: Stored {{ id: \"{}\"", lost_ids[1]),
        "lost: the click of a redirect".to_owned(),
        "doubled: 2 clicks of".to_owned(),
        "refused: ".to_owned(),
        "phantom: 1 links or batches were never sent".to_owned(),
        "contradiction: the counter of".to_owned(),
        "contradiction: 5 clicks too many are counted for link 1".to_owned(),
    ] {
        assert!(verdict.faults.iter().any(|fault| fault.starts_with(&sign)), "no {sign:?} in {:#?}", verdict.faults);
    }
}
