//! Help, completions and the manual: every command is in them, and every example works.

use deeplink_client::mock::fixtures;
use deeplink_core::qr::QrFormat;
use serde_json::json;

use crate::reports::{SECRET, of_reports};
use crate::webhooks::of_webhooks;
use deeplink_testing::dl::Dl;
use deeplink_testing::double::{
    Answer, Double, FINGERPRINT, PUBLISHABLE, SESSION, TOKEN, app, asset_links, association, domain, explanation,
    history, of_billing, of_people, qr_code, verification,
};

/// Every command, the root with an empty name first: its help, and the names of its subcommands.
fn commands() -> Vec<(String, String, Vec<String>)> {
    fn below(path: &str, found: &mut Vec<(String, String, Vec<String>)>) {
        let help = Dl::new().run(&format!("{path} --help")).ok().to_owned();
        let commands: Vec<String> = help
            .lines()
            .skip_while(|line| *line != "Commands:")
            .skip(1)
            .take_while(|line| line.starts_with("  "))
            .filter_map(|line| line.split_whitespace().next().map(str::to_owned))
            .collect();
        found.push((path.trim().to_owned(), help, commands.clone()));
        for command in commands {
            below(&format!("{path} {command}"), found);
        }
    }
    let mut found = Vec::new();
    below("", &mut found);
    found
}

/// Every command without subcommands.
pub(crate) fn leaves() -> Vec<String> {
    commands().into_iter().filter(|(_, _, below)| below.is_empty()).map(|(name, ..)| name).collect()
}

/// The examples at the end of a help, as they would be typed.
fn examples(help: &str) -> Vec<String> {
    let after = help.split("\nExamples:\n").nth(1).unwrap_or_default();
    after.lines().map(|line| line.strip_prefix("  $ ").unwrap_or_else(|| panic!("{help}: {line}")).to_owned()).collect()
}

/// Every example of a command or topic that runs on its own, with the command's name.
fn all_examples() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for (name, help, below) in commands() {
        let of_leaf = examples(&help).into_iter().filter(|_| below.is_empty());
        all.extend(of_leaf.map(|example| (name.clone(), example)));
    }
    let topic = Dl::new().run("help output");
    all.extend(examples(topic.ok()).into_iter().map(|example| ("help output".to_owned(), example)));
    all
}

#[test]
fn every_command_says_what_it_is_for_and_gives_examples() {
    let commands = commands();
    let leaves: Vec<_> = commands.iter().filter(|(_, _, below)| below.is_empty()).collect();
    assert!(leaves.len() > 35, "{leaves:?}");
    let of_leaves: Vec<String> = leaves.iter().flat_map(|(_, help, _)| examples(help)).collect();
    for (name, help, below) in &commands {
        let about = help.lines().next().unwrap_or_default();
        assert!(about.len() > 10 && !about.ends_with('.'), "{name}: {about}");
        assert!(!help.contains("see a summary with"), "{name}: every option has one short text");
        let examples = examples(help);
        assert!(examples.len() >= 2, "{name} has {} examples", examples.len());
        assert!(below.is_empty() || examples.len() <= 4, "{name}: the examples of its commands are enough");
        for example in examples {
            assert!(example.len() <= 90, "too long for a terminal: {example}");
            assert!(example.contains(format!("dl {name}").trim_end()), "{name}: {example}");
            // So that it runs in `every_example_works`.
            assert!(of_leaves.contains(&example), "{name}: no command below has the example {example}");
        }
        for line in help.lines() {
            assert!(line.chars().count() <= 100, "{name}: {line}");
        }
    }
}

/// The help of a command has its own options and names the flag that shows the global ones, which the root shows too.
#[test]
fn help_is_short_and_help_all_is_long() {
    let dl = Dl::new();
    for line in ["links create", "links", "whoami", "apps add ios"] {
        let short = dl.run(&format!("{line} --help"));
        assert_eq!(dl.run(&format!("{line} -h")).ok(), short.ok());
        assert_eq!(dl.run(&format!("help {line}")).ok(), short.ok());
        assert!(
            short.ok().contains("\n      --help-all") && !short.ok().contains("--profile <NAME>"),
            "{line}: {short}"
        );
        let long = dl.run(&format!("{line} --help-all"));
        for option in ["--help-all", "--profile <NAME>", "-o, --output <FORMAT>", "--jq <PROGRAM>", "-n, --dry-run"] {
            assert!(long.ok().contains(option), "{line} {option}: {long}");
        }
        let lines = short.ok().lines().filter(|line| !line.starts_with("Usage: "));
        let missing: Vec<&str> = lines.filter(|line| !long.ok().contains(line.trim())).collect();
        assert!(missing.is_empty(), "{line}: {missing:?}");
    }
    assert!(dl.run("links create --help").ok().contains("--web <URL>"));
    assert!(dl.run("--help").ok().contains("Global options:\n"));
    // Help that nobody asked for is short too.
    let missing = dl.run("links");
    assert!(missing.fails(2).contains("--help-all") && !missing.stderr.contains("--profile <NAME>"), "{missing}");
}

/// What a command may need of the global options is named where it is used.
#[test]
fn help_names_the_options_that_matter() {
    let dl = Dl::new();
    for (line, options) in [
        ("links list", ["--fields", "--json", "--base-url"]),
        ("links delete", ["--yes", "--dry-run", "--jq"]),
        ("links import", ["--dry-run", "--progress", "--yes"]),
    ] {
        let help = dl.run(&format!("{line} --help"));
        for option in options {
            assert!(help.ok().contains(option), "{line} {option}: {help}");
        }
    }
    let root = dl.run("--help");
    let order: Vec<_> = ["\n  links ", "\n  demo ", "\n  tags "].map(|name| root.ok().find(name)).into();
    assert!(order.iter().all(Option::is_some) && order.is_sorted(), "{root}");
}

/// Where visits lead is what people ask most often, so that it has a short name.
#[test]
fn explain_is_links_explain() {
    let double = Double::new(|_| explanation());
    let dl = Dl::at(&double.url);
    for rest in ["spring-42 --as iphone -o json", "spring-42 --as desktop"] {
        assert_eq!(dl.run(&format!("explain {rest}")).ok(), dl.run(&format!("links explain {rest}")).ok());
    }
}

/// A request that the service signed, as the examples name its parts, and the secret it was signed with.
fn signed_request(dl: &Dl) {
    dl.secret_file("s.txt", &crate::webhooks::secret());
    let body = dl.run("webhooks sample conversion").ok().to_owned();
    dl.file("b.json", &body);
    let headers = dl.run("webhooks sign --body b.json --secret-file s.txt").ok().to_owned();
    dl.file("h.txt", &headers);
    dl.file("request.txt", &format!("POST /hook HTTP/1.1\n{headers}\n{body}"));
}

/// Every example runs against a service that accepts everything, in a directory with the files they name.
#[test]
fn every_example_works() {
    let double = Double::new(|request| match (request.method.as_str(), request.path()) {
        _ if of_billing(request).is_some() => of_billing(request).expect("just seen"),
        _ if of_people(request).is_some() => of_people(request).expect("just seen"),
        _ if of_reports(request).is_some() => of_reports(request).expect("just seen"),
        _ if of_webhooks(request).is_some() => of_webhooks(request).expect("just seen"),
        ("DELETE", _) => Answer::new(204, ""),
        ("POST", "/v1/links/bulk") => {
            let body = request.json();
            let ids = body["custom_ids"].as_array().cloned().unwrap_or_else(|| match body["links"].as_array() {
                Some(links) => links.iter().map(|link| link["custom_id"].clone()).collect(),
                None => vec!["AAAA0000".into(); usize::try_from(body["count"].as_u64().unwrap_or(0)).unwrap_or(0)],
            });
            let links: Vec<_> = ids.iter().map(|id| serde_json::json!({"link_id": id, "url": format!("https://go.example.com/{}", id.as_str().unwrap_or_default())})).collect();
            Answer::json(201, &serde_json::json!({"links": links}))
        }
        ("GET", "/v1/apps") => Answer::json(200, &json!([app("ios")])),
        ("POST", "/v1/apps") => Answer::json(201, &app("ios")),
        ("GET", "/v1/domains") => Answer::json(200, &json!([domain(true)])),
        ("POST", "/v1/domains") => Answer::json(201, &domain(false)),
        ("PATCH", "/v1/domains/go.example.com") => Answer::json(200, &domain(true)),
        ("POST", "/v1/domains/go.example.com/verify") => Answer::json(200, &verification(None)),
        (_, "/.well-known/apple-app-site-association") => Answer::json(200, &association()),
        (_, "/.well-known/assetlinks.json") => Answer::json(200, &asset_links()),
        ("POST", path) if path.ends_with("/restore") => Answer::json(200, &deeplink_testing::double::link("spring-42")),
        ("POST", _) => Answer::json(
            201,
            &serde_json::json!({"link_id": "spring-42", "url": "https://go.example.com/spring-42", "expires_at": null}),
        ),
        (_, "/v1/links") => Answer::json(
            200,
            &serde_json::json!({"links": [deeplink_testing::double::link("spring-42")], "next_cursor": null}),
        ),
        ("GET", "/rest/v3/short-urls") => Answer::json(
            200,
            &json!({"shortUrls": {
                "data": [{"shortCode": "spring-1", "longUrl": "https://example.com/"}],
                "pagination": {"currentPage": 1, "pagesCount": 1},
            }}),
        ),
        (_, "/health" | "/ready") => Answer::new(200, r#"{"status":"ok"}"#),
        ("GET", "/v1/qr-logos") => Answer::json(200, &json!({"logos": [fixtures::qr_logo("acme")]})),
        ("PUT", path) if path.starts_with("/v1/qr-logos/") => Answer::json(200, &json!(fixtures::qr_logo("acme"))),
        (_, path) if path.starts_with("/v1/qr-logos/") => qr_code(QrFormat::Png),
        (_, path) if path.starts_with("/v1/tags/") => Answer::json(200, &json!(fixtures::tag_detail("Spring sale"))),
        (_, path) if path.ends_with("/timeseries") => Answer::json(
            200,
            &serde_json::json!({
                "link_id": "spring-42", "granularity": "daily", "from": "2026-11-01T00:00:00.000Z", "to": "2026-11-02T00:00:00.000Z", "data": [],
            }),
        ),
        (_, "/v1/links/dl-demo") => {
            let mut link = deeplink_testing::double::link("dl-demo");
            link["name"] = "Sample link from dl demo".into();
            Answer::json(200, &link)
        }
        (_, path) if path.ends_with("/explain") => explanation(),
        (_, path) if path.ends_with("/history") => history(),
        (_, path) if path.ends_with("/qr.png") => qr_code(QrFormat::Png),
        (_, path) if path.ends_with("/qr.svg") => qr_code(QrFormat::Svg),
        ("HEAD", _) => Answer::new(302, "").header("location", "https://example.com/"),
        _ => Answer::json(200, &deeplink_testing::double::link("spring-42")),
    });
    for (leaf, example) in all_examples() {
        let dl = Dl::new()
            .stored("default", &double.url, deeplink_testing::dl::KEY)
            .stored("staging", &double.url, deeplink_testing::dl::KEY)
            .stored("local", &double.url, deeplink_testing::dl::KEY)
            .env("DL_PUBLISHABLE_KEY", PUBLISHABLE);
        if leaf == "signup" || leaf == "login" {
            // They do not replace a key that came from elsewhere.
            std::fs::remove_file(dl.config("credentials.toml")).expect("it is there");
        }
        if example.contains("profile add") {
            std::fs::remove_file(dl.config("config.toml")).expect("it is there");
        }
        for (name, content) in [
            ("logo.png", "a picture"),
            ("links.csv", "custom_id,web_url\nspring-1,https://example.com/\n"),
            ("bitly.csv", "Link,Destination URL\nhttps://bit.ly/spring-1,https://example.com/\n"),
            ("branch.csv", "url,$deeplink_path\nhttps://example.app.link/spring-1,sale/1\n"),
            ("short-urls.json", r#"[{"shortCode": "spring-1", "longUrl": "https://example.com/"}]"#),
            ("promo.json", r#"{"web_url": "https://example.com/"}"#),
            ("ids.txt", "spring-1\nspring-2\n"),
            ("fingerprint.txt", FINGERPRINT),
            ("fingerprints.txt", &format!("{FINGERPRINT}\n{}\n", FINGERPRINT.replace("14:", "AA:"))),
        ] {
            dl.file(name, content);
        }
        for (name, content) in [
            ("key.txt", deeplink_testing::dl::KEY),
            ("shlink.key", "2c6d2ae3-7d1b-4a4e-9d0e-3f4a5b6c7d8e"),
            ("session.txt", SESSION),
            ("link.txt", TOKEN),
            ("invitation.txt", &format!("{}/v1/auth/verify?token={TOKEN}\n", double.url)),
            ("code.txt", "7GK2QX\n"),
            ("source-url.txt", &format!("{}/in/{SECRET}\n", double.url)),
            ("creds.txt", "skid_0123456789abcdef01234567\n"),
        ] {
            dl.secret_file(name, content);
        }
        if leaf.starts_with("webhooks ") {
            signed_request(&dl);
        }
        // `events` follows; it would not end here.
        let example = &example.replace(" --follow", "");
        if leaf == "webhooks listen" {
            // It runs until it is ended; `webhook_tools` sends it something.
            let port = if example.contains("--stream") { "" } else { "--port 0" };
            let ran = dl.run(&format!("{} {port} --timeout 300ms", example.trim_start_matches("dl ")));
            assert!(ran.fails(12).contains("events arrived in time"), "{example}: {ran}");
            continue;
        }
        if example.contains("--out-file s.txt") {
            std::fs::remove_file(dl.dir().join("s.txt")).expect("it is there");
        }
        if leaf.starts_with("imports show") || leaf.starts_with("imports resume") {
            // There is no run of that name; the line must only parse.
            assert!(dl.run(example.trim_start_matches("dl ")).fails(2).contains("no import named "), "{example}");
            continue;
        }
        if leaf == "login" && !example.contains("-stdin") && !example.contains("--with-key") {
            // It prompts, and there is no terminal here; `sign_in` answers it on a terminal.
            let ran = dl.run(example.trim_start_matches("dl "));
            assert!(ran.fails(2).starts_with("error[needs_input]"), "{example}: {ran}");
            continue;
        }
        let mut shell = std::process::Command::new("bash");
        let known = dl.dir().join("bin");
        std::fs::create_dir(&known).expect("a directory");
        for (name, script) in [("docker", "cat >/dev/null"), ("man", "cat >/dev/null"), ("xdg-open", "exit 0")] {
            let path = known.join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a script");
            deeplink_testing::dl::chmod(&path, 0o755);
        }
        // The example's own URL does not exist; everything else is as it would be typed.
        let line =
            example.replace("https://dl.example.com", &double.url).replace("https://staging.example.com", &double.url);
        let line = line.replace("http://127.0.0.1:8080", &double.url);
        let line = line.replace("https://go.example.com", &double.url);
        let line = line.replace("http://localhost:3000", &format!("{}/v1/any", double.url));
        let line = format!("set -o pipefail; mkdir -p ~/.local/share/bash-completion/completions ~/.zfunc; {line}");
        shell.args(["-c", &line]).current_dir(dl.dir()).env_clear().envs(dl.variables());
        let path = format!(
            "{}:{}:/usr/bin:/bin",
            known.display(),
            std::path::Path::new(env!("CARGO_BIN_EXE_dl")).parent().expect("a directory").display()
        );
        shell.env("PATH", path).stdin(std::process::Stdio::piped());
        let output =
            shell.stdin(std::fs::File::open(dl.dir().join("key.txt")).expect("a file")).output().expect("bash");
        assert!(
            output.status.success(),
            "{example}: {} {}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

/// Operations that only a browser can use have no command; their start URL is printed.
#[test]
fn a_browser_is_sent_and_nothing_is_asked() {
    let double = Double::new(|_| Answer::new(200, "{}"));
    let dl = Dl::at(&double.url);
    for (line, path) in [
        ("open signin --no-browser", "/signin"),
        ("open signin --provider google --no-browser", "/v1/auth/oauth/google/start"),
        ("open signin --provider github -n", "/v1/auth/oauth/github/start"),
    ] {
        assert_eq!(dl.run(line).ok(), format!("{}{path}\n", double.url));
    }
    // A link's own page, by its ID or its URL.
    for link in ["spring-42", "https://go.example.com/spring-42", "http://127.0.0.1:1/r/spring-42/?utm_source=a"] {
        assert_eq!(dl.run(&format!("open {link} -n")).ok(), format!("{}/account/links/spring-42\n", double.url));
    }
    assert!(dl.run("open 'a b' -n").fails(3).contains("is not a link ID"));
    assert_eq!(dl.run("open").code, Some(2));
    assert!(dl.run("open -n").fails(2).contains("requires the ID or URL of a link, or a page"));
    let json = format!("{{\"url\":\"{}/account/links/spring-42\"}}\n", double.url);
    assert_eq!(dl.run("open spring-42 -n -o json").ok(), json);
    let nobody = dl.run("open signin");
    assert!(nobody.ok().ends_with("/signin\n"), "{nobody}");
    assert!(dl.run("open signin --provider elsewhere").code == Some(2) && double.requests().is_empty());
}

/// A URL on a host of somebody else may have the ID of another link, whose page must not be opened.
#[test]
fn a_url_on_another_host_is_checked_before_its_page_is_opened() {
    let double = Double::new(|request| match request.query("host") {
        Some("go.example.com") => explanation(),
        _ => Answer::error(400, "bad_request", "host must be a verified domain of this account"),
    });
    let dl = Dl::at(&double.url);
    let ran = dl.run("open https://evil.example/r/spring-42");
    assert!(ran.stdout.is_empty() && ran.fails(3).contains("host must be a verified domain"), "{ran}");
    let ran = dl.run("open https://go.example.com/spring-42");
    assert_eq!(ran.ok(), format!("{}/account/links/spring-42\n", double.url));
    assert_eq!(double.lines(), ["GET /v1/links/spring-42/explain"; 2]);
    let before = double.requests().len();
    dl.run(&format!("open {}/r/spring-42 -o json", double.url)).ok();
    assert_eq!(double.requests().len(), before, "the service's own host needs no check");
}

#[test]
fn exit_codes_are_listed() {
    insta::assert_snapshot!(Dl::new().run("help exit-codes").ok(), @"
      0  success (including an empty list or a closed pipe)
      1  unexpected failure
      2  usage error, or input needed but no prompt possible (see --yes)
      3  invalid input, detected locally or by the service (400, 413, 415)
      4  no key, a rejected key, or a key stored for another origin (401, 403)
      5  not found (404)
      6  conflict, such as an ID in use (409)
      7  plan limit reached, or payment required (402)
      8  too many requests, even after retries (429)
      9  network or TLS error, request timeout, or service failure (5xx)
     10  partial success: some operations failed
     11  a signature or QR check failed
     12  still pending when the wait ended
    130  stopped by Ctrl-C (SIGINT)
    143  stopped by SIGTERM

    With several IDs, all are tried: 0 if all succeed; if all fail the same way, that code; otherwise 10.
    ");
}

#[test]
fn help_of_a_command_is_its_help() {
    let dl = Dl::new();
    assert_eq!(dl.run("help links create").ok(), dl.run("links create --help").ok());
    assert_eq!(dl.run("help").ok(), dl.run("--help").ok());
    assert!(dl.run("help nothing").fails(2).contains("no command or topic named"));
    for topic in ["jq", "render"] {
        assert_eq!(dl.run(&format!("help {topic}")).ok(), dl.run("help output").ok());
    }
    assert!(dl.run("help output").ok().contains("lacks IN, input"));
}

/// `--help-all` belongs to the command of the line, wherever it is.
#[test]
fn help_all_may_be_anywhere() {
    let dl = Dl::new();
    let all = dl.run("links list --help-all");
    for line in ["--help-all links list", "links --help-all list", "links list --limit 5 --help-all --bogus"] {
        assert_eq!(dl.run(line).ok(), all.ok(), "{line}");
    }
    assert_ne!(dl.run("--help-all").ok(), all.ok());
}

/// A help that could not be written is not a success.
#[cfg(target_os = "linux")]
#[test]
fn help_on_a_full_disk_fails() {
    let dl = Dl::new();
    for line in ["--help", "links --help-all", "--version"] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
        let mut command = dl.command(line);
        command.stdin(std::process::Stdio::null()).stdout(full).stderr(std::process::Stdio::piped());
        let output = command.output().expect("dl runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains("cannot write to stdout"), "{line}: {said}");
    }
}

#[test]
fn completions_and_manual_know_every_command() {
    let dl = Dl::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = dl.run(&format!("completions {shell} --static"));
        for leaf in leaves() {
            let name = leaf.rsplit(' ').next().unwrap_or_default();
            assert!(script.ok().contains(name), "{shell} does not know {leaf}");
        }
        assert!(script.ok().contains("on-conflict"), "{shell}");
    }
    dl.run("man --dir pages").ok();
    for leaf in leaves() {
        let page = dl.dir().join(format!("pages/dl-{}.1", leaf.replace(' ', "-")));
        assert!(page.is_file(), "{}", page.display());
    }
    assert!(dl.run("man").ok().contains("dl"));
}

/// Every page has a header, a date and a footer, and dl(1) has the sections that a reader looks for.
#[test]
fn manual_pages_are_complete() {
    let dl = Dl::new().env("SOURCE_DATE_EPOCH", "1700000000");
    dl.run("man --dir pages").ok();
    for (name, ..) in commands() {
        let name = if name.is_empty() { "dl".to_owned() } else { format!("dl-{}", name.replace(' ', "-")) };
        let page = std::fs::read_to_string(dl.dir().join(format!("pages/{name}.1"))).expect("a page");
        let version = env!("CARGO_PKG_VERSION");
        let title = format!("\n.TH {} 1 2023-11-14 \"dl {version}\" \"User Commands\"\n", name.to_uppercase());
        assert!(page.contains(&title), "{name}: {page}");
        assert!(page.contains("\n.SH EXAMPLES\n") && !page.contains(".SH EXTRA"), "{name}");
    }
    let root = dl.run("man");
    for part in [".SH \"EXIT STATUS\"", ".SH ENVIRONMENT", ".SH FILES", "DL_BASE_URL", "SIGTERM", "config.toml"] {
        assert!(root.ok().contains(part), "{part}: {root}");
    }
}
