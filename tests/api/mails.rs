//! Outgoing mails: their form, and how a mail server's answers are handled.

use std::time::{Duration, Instant};

use base64::Engine;
use deeplink_server::config::{Config, MailTransport, TrustedRoots};
use serde_json::json;

use deeplink_doubles::authority::{Authority, Identity};
use deeplink_testing::smtp::{MailServer, Mood};
use deeplink_testing::{World, eventually, log_mark, logged_since, spawn, spawn_with};

const PATIENCE: Duration = Duration::from_mins(1);

fn smtp(config: &mut Config, url: &str) {
    config.mail = Some(MailTransport::Smtp(url.parse().expect("the URL of a mail server")));
}

async fn world_with(server: &MailServer) -> World {
    let url = format!("smtp://{}", server.address);
    spawn_with(|config| smtp(config, &url)).await
}

async fn ask_for_link(world: &World, email: &str) {
    assert_eq!(world.nobody.post("/v1/auth/signin", &json!({"email": email})).await.status, 200);
}

async fn waiting(world: &World) -> i64 {
    world.db.number("SELECT CAST(count(*) AS BIGINT) FROM mails").await
}

/// Waits until the one mail was tried and postponed. During an attempt, it is due in half a minute.
async fn put_off(world: &World) {
    let soon = world.clock.now().as_millis() + 30_000;
    let put_off = format!("SELECT CAST(count(*) AS BIGINT) FROM mails WHERE attempts >= 1 AND due_at < {soon}");
    eventually("it was tried and postponed", PATIENCE, || async { world.db.number(&*put_off).await == 1 }).await;
}

/// The tokens in mails that a server accepted are secrets too.
fn note_tokens(world: &World, server: &MailServer) {
    for mail in server.mails() {
        let token = mail.split("token=").nth(1).expect("a token");
        world.note_secret(&token[..64]);
    }
}

/// An expired link is not sent once the mail server is back.
#[tokio::test]
async fn what_is_over_is_not_sent() {
    let server = MailServer::start(Mood::Answers("451 later"), None).await;
    let world = world_with(&server).await;
    ask_for_link(&world, "new@example.com").await;
    put_off(&world).await;
    server.set(Mood::Takes);
    world.clock.advance(Duration::from_mins(15));
    eventually("it is given up", PATIENCE, || async { waiting(&world).await == 0 }).await;
    assert!(server.mails().is_empty());
}

/// Each mail is plain text and HTML with the same content; the link is in full on its own line.
#[tokio::test]
async fn mails_say_the_same_as_text_and_as_html() {
    let world = spawn().await;
    world.nobody.post("/v1/auth/signup", &json!({"email": "signup@example.com"})).await;
    let signin = world.magic_link("signin@example.com").await;
    let invite = world.invite(&world.a, "invite@example.com").await;
    world.mails(3).await;
    let until = ["2026-11-27", "09:45 UTC on 2026-11-20", "2026-11-27"];
    for (name, until) in ["signup", "signin", "invite"].into_iter().zip(until) {
        let mail = world.mails_to(&format!("{name}@example.com")).remove(0);
        let path = match name {
            "signup" => "/account/confirm",
            "invite" => "/v1/auth/verify",
            _ => "/v1/auth/callback",
        };
        let link = format!("{}{path}?token=", world.nobody.base());
        let (head, body) = mail.split_once("\r\n\r\n").expect("a head and a body");
        for header in
            ["From: ", "Date: Fri, 20 Nov 2026 09:3", "Message-ID: <eml_", "Subject: ", "multipart/alternative"]
        {
            assert!(head.contains(header), "{header} is not in {head}");
        }
        let (text, html) = body.split_once("text/html").expect("two parts");
        assert!(text.contains("text/plain"));
        let alone: Vec<_> =
            text.lines().filter(|line| line.starts_with(&link) && line.len() == link.len() + 64).collect();
        assert_eq!(alone.len(), 1, "{text}");
        assert_eq!(html.matches(&format!("href=\"{}\"", alone[0])).count(), 2, "the button and the link: {html}");
        assert!(html.contains(&format!(">{}<", alone[0])), "{html}");
        for part in [text, html] {
            assert!(part.contains(until), "{name} says until when: {part}");
        }
        for part in ["prefers-color-scheme: dark", "width=device-width", "color-scheme"] {
            assert!(html.contains(part), "{part} is not in {html}");
        }
        for foreign in ["<img", "<script", "https://", "@import"] {
            assert!(!html.contains(foreign), "{foreign} is in {html}");
        }
    }
    assert_ne!(signin, invite);
}

#[tokio::test]
async fn mails_go_to_the_mail_server_over_a_connection_that_is_used_again() {
    let server = MailServer::start(Mood::Takes, None).await;
    let password = "a-long-password-of-a-mailbox";
    let url = format!("smtp://mailer:{password}@{}", server.address);
    let world = spawn_with(|config| smtp(config, &url)).await;
    world.note_secret(password);
    for number in 1..=3 {
        ask_for_link(&world, &format!("n{number}@example.com")).await;
        eventually("the mail arrives", PATIENCE, || async { server.mails().len() == number }).await;
        eventually("it is off the list", PATIENCE, || async { waiting(&world).await == 0 }).await;
    }
    let plain = base64::engine::general_purpose::STANDARD.encode(format!("\0mailer\0{password}"));
    assert_eq!((server.connections(), server.signed_in()), (1, vec![format!("AUTH PLAIN {plain}")]));
    note_tokens(&world, &server);
    let mail = &server.mails()[0];
    assert!(mail.contains("To: n1@example.com\n") && mail.contains("/v1/auth/callback?token="), "{mail}");
}

#[tokio::test]
async fn a_mail_that_is_refused_for_good_is_given_up() {
    let server = MailServer::start(Mood::Answers("550 5.1.1 no such user"), None).await;
    let world = world_with(&server).await;
    let mark = log_mark();
    ask_for_link(&world, "nobody@example.com").await;
    let told =
        || logged_since(&mark).lines().any(|line| line.contains("ERROR") && line.contains("rejected permanently"));
    eventually("it is given up", PATIENCE, || async { told() && waiting(&world).await == 0 }).await;
    assert_eq!(server.mails().len(), 0);
    assert!(!logged_since(&mark).lines().any(|line| line.contains("rejected permanently") && line.contains("nobody@")));
}

#[tokio::test]
async fn a_mail_that_cannot_be_taken_now_is_tried_again() {
    for busy in ["451 4.7.1 come back later", "535 5.7.8 who are you"] {
        let server = MailServer::start(Mood::Answers(busy), None).await;
        let world = world_with(&server).await;
        ask_for_link(&world, "new@example.com").await;
        let tried = "SELECT CAST(count(*) AS BIGINT) FROM mails WHERE attempts >= 1";
        eventually("it was tried", PATIENCE, || async { world.db.number(tried).await == 1 }).await;
        eventually("the answer came", PATIENCE, || async { server.connections() >= 1 }).await;
        server.set(Mood::Takes);
        let arrives = || async {
            world.clock.advance(Duration::from_secs(2));
            ask_for_link(&world, "wakes@example.com").await;
            server.mails().iter().any(|mail| mail.contains("To: new@example.com"))
        };
        eventually("it arrives", PATIENCE, arrives).await;
        note_tokens(&world, &server);
    }
}

/// A server that hangs on one connection does not delay other mails, and the mail on it is not lost.
#[tokio::test]
async fn a_server_that_hangs_delays_one_mail() {
    let server = MailServer::start(Mood::Takes, None).await;
    let world = world_with(&server).await;
    server.set_for_next(Mood::Hangs);
    let began = Instant::now();
    for number in 0..3 {
        ask_for_link(&world, &format!("n{number}@example.com")).await;
    }
    let arrived = |count: usize| {
        let server = &server;
        move || async move { server.mails().len() >= count }
    };
    eventually("the others arrive", Duration::from_secs(40), arrived(2)).await;
    eventually("all arrive", Duration::from_secs(40), || async {
        // The connection times out by real time, and the mail's next attempt is due by the test's clock.
        world.clock.advance(Duration::from_millis(100));
        ask_for_link(&world, "wakes@example.com").await;
        (0..3).all(|number| server.mails().iter().any(|mail| mail.contains(&format!("To: n{number}@example.com"))))
    })
    .await;
    assert!(began.elapsed() < Duration::from_secs(40), "{:?}", began.elapsed());
    note_tokens(&world, &server);
}

/// If TLS is required, a server that does not offer it gets no data.
#[tokio::test]
async fn no_mail_goes_out_in_the_clear_where_tls_is_asked_for() {
    let server = MailServer::start(Mood::Takes, None).await;
    let password = "a-long-password-of-a-mailbox";
    let url = format!("smtp://mailer:{password}@{}?tls=required", server.address);
    let world = spawn_with(|config| smtp(config, &url)).await;
    world.note_secret(password);
    ask_for_link(&world, "new@example.com").await;
    put_off(&world).await;
    assert_eq!((server.connections(), server.signed_in().len(), server.mails().len()), (1, 0, 0));
}

/// Over TLS the server's certificate must be valid; the operator's own authority counts.
#[tokio::test]
async fn a_mail_server_must_be_who_it_should_be() {
    let (ours, other) = (Authority::new(), Authority::new());
    let folder = tempfile::tempdir().expect("a directory");
    let roots = folder.path().join("roots.pem");
    std::fs::write(&roots, ours.pem()).expect("written");
    for (authority, identity, arrives) in [
        (&ours, Identity::Days(30), true),
        (&other, Identity::Days(30), false),
        (&ours, Identity::Other, false),
        (&ours, Identity::Ended, false),
    ] {
        let server = MailServer::start(Mood::Takes, authority.acceptor(&["localhost"], identity)).await;
        let url = format!("smtps://localhost:{}", server.address.port());
        let world = spawn_with(|config| {
            smtp(config, &url);
            config.outbound_ca = Some(TrustedRoots::read(&roots).expect("the authority"));
        })
        .await;
        ask_for_link(&world, "new@example.com").await;
        eventually("it was tried", PATIENCE, || async {
            server.connections() >= 1 || server.mails().len() == 1 || !arrives
        })
        .await;
        if arrives {
            eventually("it arrives", PATIENCE, || async { server.mails().len() == 1 }).await;
            note_tokens(&world, &server);
        } else {
            let tried = "SELECT CAST(count(*) AS BIGINT) FROM mails WHERE attempts >= 1";
            eventually("it was tried", PATIENCE, || async { world.db.number(tried).await == 1 }).await;
            assert_eq!((server.mails().len(), waiting(&world).await), (0, 1), "{identity:?}");
        }
    }
}
