//! Signing in and out on the pages: the texts, the redirects, and who is kept out.

use deeplink_server::config::MailTransport;
use http::Method;

use super::{Visitor, all_forms, all_pages, form, stored, text_of, went};
use deeplink_testing::{spawn, spawn_with, token_in};

#[tokio::test]
async fn every_error_has_its_text_and_none_is_echoed() {
    let world = spawn().await;
    let stranger = Visitor::stranger(&world);
    let mut texts = std::collections::HashSet::new();
    for (error, part) in [
        ("link_expired", "15 minutes"),
        ("invite_invalid", "invitation"),
        ("signup_invalid", "shown only once"),
        ("invalid_request", "another website"),
        ("oauth_denied", "did not allow access"),
        ("oauth_state_invalid", "another browser"),
        ("oauth_provider_error", "could not sign you in"),
        ("oauth_email_unverified", "not confirmed"),
        ("oauth_no_email", "share an email address"),
        ("session_expired", "signed out"),
        ("signup_closed", "not accepting new accounts"),
        ("something_new", "did not work"),
    ] {
        let reply = stranger.get(&format!("/signin?error={error}")).await;
        let page = reply.text();
        let alert = page.split("role=\"alert\">").nth(1).and_then(|rest| rest.split('<').next());
        let alert = alert.unwrap_or_else(|| panic!("{error} says nothing"));
        assert!(reply.status == 200 && alert.contains(part), "{error}: {alert}");
        assert!(texts.insert(alert.to_owned()), "{error} says what another says");
        assert!(!page.contains("something_new"));
    }
    for hostile in ["%3Csvg%20onload%3Dalert(1)%3E", "%22%3E%3Cscript%3E", "a&error=b", "%00", "%ff"] {
        let page = stranger.get(&format!("/signin?error={hostile}")).await;
        assert_eq!(page.status, 200, "{hostile}");
        assert!(text_of(&page).contains("did not work") && !page.text().contains("onload"), "{hostile}");
    }
    for (query, part) in [("invite=accepted", "joined the team"), ("signed_out=1", "You are signed out.")] {
        let page = stranger.get(&format!("/signin?{query}")).await;
        assert!(text_of(&page).contains(part) && !page.text().contains("role=\"alert\""), "{query}");
        assert!(!text_of(&page).contains("New here?"), "{query}: they have an account");
    }
    assert!(!stranger.get("/signin?invite=other").await.text().contains("role="), "other values are ignored");
}

/// Signed-in people are told the result of a link or an invitation too, and what to do next.
#[tokio::test]
async fn who_is_signed_in_is_told_as_well() {
    let world = spawn().await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    for (query, part) in [
        ("error=invite_invalid&next=/account/team", "That invitation has already been used"),
        ("error=invalid_request", "another website"),
        ("error=oauth_denied", "did not allow access"),
        ("error=a&error=b", "did not work"),
        ("invite=accepted", "You have joined the team."),
    ] {
        let reply = visitor.get(&format!("/signin?{query}")).await;
        let text = text_of(&reply);
        assert_eq!(reply.status, 200, "{query}");
        assert!(text.contains(part) && text.contains("You are signed in as <b>a@example.com</b>"), "{query}: {text}");
        let next = if query.contains("team") { "/account/team" } else { "/account" };
        assert!(text.contains(&format!("href=\"{next}\"")) && text.contains("action=\"/account/signout\""), "{text}");
        assert_eq!(text.contains("role=\"alert\""), query.starts_with("error"), "{query}");
        assert!(!text.contains("name=\"email\""), "{text}");
    }
    for query in ["error=session_expired&next=%2Faccount%2Fkeys", "signed_out=1&next=%2Faccount%2Fkeys"] {
        let reply = visitor.get(&format!("/signin?{query}")).await;
        assert_eq!(went(&reply), (303, "/account/keys"), "they have signed in again: {query}");
    }
}

/// Without a session each page redirects to the sign-in and from there back. Keys are not sessions.
#[tokio::test]
async fn who_is_not_signed_in_signs_in_first() {
    let world = spawn().await;
    let pages = all_pages(&world, &world.b).await;
    let stranger = Visitor::stranger(&world);
    let query = |path: &str| form(&[("next", path)]);
    for path in &pages {
        assert_eq!(went(&stranger.get(path).await), (303, format!("/signin?{}", query(path)).as_str()));
    }
    let before = stored(&world).await;
    for (path, fields) in all_forms(&pages) {
        let reply = stranger.post(&path, &fields).await;
        let inside = ["/signout", "/publishable", "/credentials", "/checkout", "/portal"];
        let page = inside.iter().find_map(|end| path.strip_suffix(end));
        let page = page.unwrap_or(&path);
        let to = format!("/signin?{}", query(page));
        assert_eq!(went(&reply), (303, to.as_str()), "a form is not sent again by itself: {path}");
    }
    let made_up = "5".repeat(64);
    world.note_secret(&made_up);
    let key = world.b.key().expect("a key").to_owned();
    for cookie in [made_up, key.clone(), String::new(), "x; session_token=y".to_owned()] {
        let reply =
            stranger.ask(Method::GET, "/account").header("cookie", format!("session_token={cookie}")).send().await;
        assert_eq!(went(&reply), (303, "/signin?error=session_expired&next=%2Faccount"));
    }
    assert_eq!(
        went(&stranger.ask(Method::GET, "/account").bearer(&key).send().await),
        (303, "/signin?next=%2Faccount")
    );
    let with_query = stranger.get("/account/links?cursor=abc").await;
    assert_eq!(went(&with_query), (303, "/signin?next=%2Faccount%2Flinks%3Fcursor%3Dabc"));
    assert!(before == stored(&world).await, "nothing was done");
}

/// S10: the page keeps `next`, and never leaves the site with it.
#[tokio::test]
async fn s10_next_of_the_page_stays_here() {
    let world = spawn().await;
    let stranger = Visitor::stranger(&world);
    let visitor = Visitor::signed_in(&world, &world.a).await;
    for (next, kept) in [
        ("/account/links", "/account/links"),
        ("/account/links?cursor=a%26b", "/account/links?cursor=a%26b"),
        ("//other.example", "/account"),
        ("https://other.example/", "/account"),
        ("/\\other.example", "/account"),
        ("/%09/other.example", "/account"),
        ("javascript:alert(1)", "/account"),
        ("", "/account"),
    ] {
        let path = format!("/signin?{}", form(&[("next", next)]));
        assert_eq!(went(&visitor.get(&path).await), (303, kept), "{next}");
        let page = stranger.get(&path).await.text();
        let shown = kept.replace('&', "&#38;");
        assert!(page.contains(&format!("name=\"next\" value=\"{shown}\"")), "{next}: {page}");
    }
    assert_eq!(went(&visitor.get("/signin").await), (303, "/account"));
    assert_eq!(went(&visitor.get("/signin?next=/a&next=/b").await), (303, "/account"));
}

/// A link is mailed; the page says the same for every address, and the link leads to `next`.
#[tokio::test]
async fn signing_in_by_mail() {
    let world = spawn().await;
    let stranger = Visitor::stranger(&world);
    let mut answers = Vec::new();
    for email in ["a@example.com", "nobody-yet@example.com"] {
        let reply = stranger.post("/signin", &[("email", email), ("next", "/account/keys")]).await;
        assert_eq!(went(&reply), (303, "/signin?sent=1"));
        answers.push(stranger.get("/signin?sent=1").await.text().len());
    }
    assert_eq!(answers[0], answers[1]);
    let mails = world.mails(2).await;
    let mail = mails.iter().find(|mail| mail.contains("To: a@example.com")).expect("a mail");
    let token = token_in(mail).expect("a token");
    world.note_secret(&token);
    let reply = stranger.post("/v1/auth/callback", &[("token", &token)]).await;
    assert_eq!(went(&reply), (303, "/account/keys"));
    let cookie = reply.header("set-cookie").split(';').next().expect("a cookie").to_owned();
    world.note_secret(cookie.trim_start_matches("session_token="));
    let page = stranger.ask(Method::GET, "/account/keys").header("cookie", cookie).send().await;
    assert!(page.status == 200 && page.text().contains("a@example.com"));

    let wrong = stranger.post("/signin", &[("email", "no address"), ("next", "/account/keys")]).await;
    let page = wrong.text();
    assert_eq!(wrong.status, 400);
    assert!(
        page.contains("id=\"email-error\">This is not a valid email address.<")
            && page.contains("value=\"no address\"")
    );
    assert!(page.contains("aria-invalid=\"true\"") && page.contains("value=\"/account/keys\""), "{page}");
    assert_eq!(world.mails(2).await.len(), 2, "nothing was mailed for it");
}

#[tokio::test]
async fn sign_ins_are_limited_by_address() {
    let world = spawn_with(|config| config.limits.signins_per_minute = 10).await;
    let stranger = Visitor::stranger(&world);
    for _ in 0..10 {
        assert_eq!(stranger.post("/signin", &[("email", "a@example.com")]).await.status, 303);
    }
    let refused = stranger.post("/signin", &[("email", "a@example.com"), ("next", "/account/keys")]).await;
    assert_eq!(refused.status, 429);
    let page = refused.text();
    assert!(page.contains("value=\"a@example.com\"") && page.contains("value=\"/account/keys\""), "{page}");
    assert!(!refused.header("retry-after").is_empty());
    assert!(text_of(&refused).contains("Wait a minute"));
    assert_eq!(stranger.get("/signin").await.status, 200, "the page itself is not limited");
}

#[tokio::test]
async fn where_signing_in_is_not_set_up_the_page_says_so() {
    let world = spawn_with(|config| config.sessions = false).await;
    let stranger = Visitor::stranger(&world);
    for reply in [stranger.get("/signin").await, stranger.post("/signin", &[("email", "a@example.com")]).await] {
        assert_eq!(reply.status, 503);
        assert!(text_of(&reply).contains("is not set up on this service") && !reply.text().contains("<form"));
        assert!(text_of(&reply).contains("Go to the home page"));
        assert!(text_of(&reply).contains("Sign in"), "the page to sign in on, not an error page: {}", text_of(&reply));
    }
    // Closed sign-up does not change what is sent.
    let world = spawn_with(|config| config.signup_open = false).await;
    let stranger = Visitor::stranger(&world);
    assert_eq!(went(&stranger.post("/signin", &[("email", "a@example.com")]).await), (303, "/signin?sent=1"));
    assert!(!text_of(&stranger.get("/signin").await).contains("create your account"), "it announces it");
    let open = spawn().await;
    assert!(text_of(&Visitor::stranger(&open).get("/signin").await).contains("New here? We’ll create your account."));
}

/// Without a mail server, the pages say where emails are, before and after one is asked for; only on one's own machine.
#[tokio::test]
async fn emails_in_files_are_found() {
    let world = spawn().await;
    let stranger = Visitor::stranger(&world);
    let public = spawn_with(|config| {
        config.public_url = Some("https://links.example.com".parse().expect("a URL"));
        config.mail = Some(MailTransport::Directory(config.data_dir.join("mail")));
    })
    .await;
    for (path, says) in [
        ("/signin", "This service does not send emails. It writes them to files in <code>/"),
        ("/signin?sent=1", "a sign-in link was written to a file in <code>/"),
    ] {
        let page = text_of(&stranger.get(path).await);
        assert!(page.contains(says), "{path}: {page}");
        assert!(page.contains("/mail</code>."), "{path}: {page}");
        let page = public.nobody.browse(Method::GET, path).header("host", "links.example.com").send().await.text();
        assert!(page.contains("</html>") && !page.contains("/mail</code>"), "{path}: {page}");
    }
    let page = text_of(&stranger.get("/signin?error=once_invalid").await);
    let command = "<code>deeplink-server tenant signin <span class=\"option\">--tenant</span> ACCOUNT_ID</code>";
    assert!(page.contains(command), "{page}");
}

/// Sign-out ends the session: the cookie is cleared, and a saved copy is invalid.
#[tokio::test]
async fn s9_signing_out_ends_the_session() {
    let world = spawn().await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    let reply = visitor.post("/account/signout", &[]).await;
    assert_eq!(went(&reply), (303, "/signin?signed_out=1"));
    assert_eq!(reply.header("set-cookie"), "session_token=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0");
    assert_eq!(went(&visitor.get("/account").await), (303, "/signin?error=session_expired&next=%2Faccount"));
}
