//! Programs (`--jq`) and templates (`--render`) that fail, halt, never end, or come where they do not apply.

use std::process::Stdio;

use crate::signals::{end_of, send, wait_for};
use deeplink_testing::dl::Dl;
use deeplink_testing::double::{Answer, Double, many_links, with_links};
use serde_json::json;

/// A service that creates and deletes links.
fn service() -> Double {
    Double::new(|request| {
        if let Some(answer) = many_links(request, &[]) {
            return answer;
        }
        match request.method.as_str() {
            "POST" => Answer::json(
                201,
                &json!({"link_id": "spring-42", "url": "https://go.example.com/spring-42", "expires_at": null}),
            ),
            "DELETE" => Answer::new(204, ""),
            _ => Answer::error(404, "not_found", "not found"),
        }
    })
}

/// What a request has done is shown, whatever becomes of the program.
#[test]
fn a_failure_after_a_change_shows_the_record() {
    let double = service();
    let dl = Dl::at(&double.url);
    for filter in ["--jq .url.host", "--render '{{ nothing }}'", "-o json --jq '.url | error'"] {
        let ran = dl.run(&format!("links create https://example.com {filter}"));
        assert!(ran.fails(1).contains("--"), "{filter}: {ran}");
        assert!(ran.stdout.contains("\"url\":\"https://go.example.com/spring-42\""), "{filter}: {ran}");
        assert!(ran.stderr.contains("the request succeeded"), "{filter}: {ran}");
    }
}

#[test]
fn a_failure_does_not_cut_short_a_command_that_changes_something() {
    for (filter, code, lines) in [("--jq .x.y.z", 0, 3), ("--jq .id.x", 1, 3), ("--jq halt", 0, 0)] {
        let double = service();
        let ids = ["app_0123456789abcdef01234567", "app_0123456789abcdef01234568", "app_0123456789abcdef01234569"];
        let ran = Dl::at(&double.url).run(&format!("apps delete {} --yes {filter}", ids.join(" ")));
        assert_eq!((ran.code, ran.stdout.lines().count()), (Some(code), lines), "{filter}: {ran}");
        assert_eq!(double.requests().len(), 3, "{filter}: {ran}");
    }
    let double = service();
    let ran = Dl::at(&double.url).run("links delete one two six --yes --jq .id.x");
    assert!(ran.fails(1).starts_with("error: --jq: "), "{ran}");
    assert_eq!(ran.stdout.matches("\"deleted\":true").count(), 3, "{ran}");
}

/// A command that only reads ends at the first record that a program or a template fails on.
#[test]
fn a_failure_ends_a_command_that_reads() {
    let dl = Dl::at(&with_links(3).url);
    let ran = dl.run("links list --jq .url.host");
    assert!(ran.stdout.is_empty() && ran.fails(1).starts_with("error: --jq: "), "{ran}");
    assert_eq!(dl.run("links list --jq '.link_id, halt'").ok(), "link-0000\n");
    let ran = dl.run("links list --jq '\"no \\(.link_id)\\n\" | halt_error'");
    assert!(ran.fails(1).starts_with("error: --jq: no link-0000\n"), "{ran}");
    let ran = dl.run("links list --render '{{ metadata.campaign }}'");
    assert!(ran.fails(1).contains("link_id link-0000") && ran.stderr.contains(" or '' }}"), "{ran}");
}

#[test]
fn debug_and_stderr_go_to_stderr() {
    let ran = Dl::at(&with_links(1).url).run("links list --jq '.link_id | debug | stderr'");
    assert_eq!(ran.ok(), "link-0000\n");
    assert_eq!(ran.stderr, "[\"DEBUG:\",\"link-0000\"]\nlink-0000\n");
}

/// A program is for the response; what is held back is not one.
#[test]
fn held_requests_are_printed_unfiltered() {
    let double = service();
    for filter in ["--jq .url", "--render '{{ url }}'"] {
        let held = Dl::at(&double.url).run(&format!("links create https://example.com -n {filter}"));
        assert!(held.ok().starts_with("{\"method\":\"POST\",\"path\":\"/v1/links\","), "{filter}: {held}");
    }
    assert!(double.requests().is_empty());
}

#[test]
fn a_signal_ends_a_program_that_never_ends() {
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let double = with_links(1);
        let dl = Dl::at(&double.url);
        let mut command = dl.command("links list --jq 'last(repeat(1))'");
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("dl starts");
        // It runs once it has used a good part of a second.
        let stat = format!("/proc/{}/stat", child.id());
        wait_for("the program runs", || {
            let stat = std::fs::read_to_string(&stat).expect("a process");
            let times = stat.rsplit(')').next().expect("fields");
            times.split(' ').nth(12).is_some_and(|user| user.parse::<u64>().expect("ticks") > 30)
        });
        send(&child, signal);
        assert_eq!(end_of(&mut child), Some(code));
    }
}

/// A program that recurses without end, or is nested too deeply, is an error and not the end of the process by SIGABRT.
#[test]
fn recursion_and_nesting_have_an_end() {
    let double = with_links(1);
    let dl = Dl::at(&double.url);
    let ran = dl.run("links list --jq 'def f: 1 + f; f'");
    assert_eq!(ran.fails(1), "error: --jq: the program recurses too deeply (link_id link-0000)\n", "{ran}");
    let ran = dl.run("links list --jq 'def f: [f]; f'");
    assert!(ran.fails(1).contains("the program recurses too deeply"), "{ran}");
    let ran = dl.run("links list --jq 'reduce range(100000) as $i (null; [.])'");
    assert!(ran.fails(1).contains("a result is nested more than 1000 levels deep"), "{ran}");
    assert_eq!(dl.run("links list --jq '[limit(5000; repeat(1))] | length'").ok(), "5000\n");
    assert_eq!(dl.run("links list --jq 'def f: if . == 0 then 0 else . - 1 | f + 1 end; 2000 | f'").ok(), "2000\n");
    let before = double.requests().len();
    for open in ["[", "(", "{a:"] {
        let ran = dl.run(&format!("links list --jq '{}'", open.repeat(3_000)));
        assert!(ran.fails(2).contains("brackets are nested more than 256 levels deep"), "{ran}");
    }
    assert_eq!(double.requests().len(), before, "nothing is sent");
    // Without brackets too.
    let ran = dl.run(&format!("links list --jq '{}1'", "-".repeat(10_000)));
    assert!(ran.code.is_some(), "{ran}");
}

/// What a program says is printed as it is, with the record that it failed on.
#[test]
fn an_error_of_a_program_names_the_record() {
    let dl = Dl::at(&with_links(2).url);
    let ran =
        dl.run("links list --jq 'if .link_id == \"link-0001\" then error(\"odd \\(.link_id)\") else .link_id end'");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(1), "error: --jq: odd link-0001 (link_id link-0001)\n"), "{ran}");
    let ran = dl.run("links list --jq '@csv'");
    assert!(ran.fails(1).contains("@csv requires an array, such as [.link_id, .url] | @csv"), "{ran}");
    let ran = dl.run("links list -o json --jq 'error(\"no\")'");
    assert!(ran.fails(1).contains("\"--jq: no\""), "{ran}");
}

/// A program or a template that begins with `-` needs no `=`.
#[test]
fn filters_may_begin_with_a_hyphen() {
    let dl = Dl::at(&with_links(1).url);
    assert_eq!(dl.run("links list --render '- {{ link_id }}'").ok(), "- link-0000\n");
    assert_eq!(dl.run("links list --jq '-(1)'").ok(), "-1\n");
}

/// Text that a spreadsheet would run is made safe in the CSV of programs too, and the flag never does nothing.
#[test]
fn spreadsheet_safe_applies_to_programs() {
    let body = r#"{"link_id":"one","url":"https://go.example.com/one","name":"=1+1","status":"active","enabled":true,"created_at":"2026-11-20T09:30:00.000Z","updated_at":"2026-11-20T09:30:00.000Z"}"#;
    let double = Double::new(move |_| Answer::new(200, body));
    let dl = Dl::at(&double.url);
    let row = "links get one --jq '[.link_id, .name] |";
    assert_eq!(dl.run(&format!("{row} @csv'")).ok(), "\"one\",\"=1+1\"\n");
    assert_eq!(dl.run(&format!("{row} @csv' --spreadsheet-safe")).ok(), "\"one\",\"'=1+1\"\n");
    assert_eq!(dl.run(&format!("{row} @tsv' --spreadsheet-safe")).ok(), "one\t'=1+1\n");
    assert!(dl.run("links get one -o csv --fields name --spreadsheet-safe").ok().contains("'=1+1"));
    let before = double.requests().len();
    for line in [
        "links get one",
        "links get one -o json",
        "links get one -o yaml",
        "links get one -o id",
        "links get one --json name",
        "links get one --jq .name",
        "links get one --render '{{ name }}'",
        "links export -o jsonl",
    ] {
        let ran = dl.run(&format!("{line} --spreadsheet-safe"));
        assert!(ran.fails(2).contains("--spreadsheet-safe applies only to CSV"), "{line}: {ran}");
    }
    assert_eq!(double.requests().len(), before, "nothing is sent");
}

/// Numbers that a template cannot hold do not stop it.
#[test]
fn numbers_of_any_size_are_rendered() {
    let body = r#"{"link_id":"one","url":"https://go.example.com/one","metadata":{"n":1e400,"i":123456789012345678901234567890},"status":"active","enabled":true,"created_at":"2026-11-20T09:30:00.000Z","updated_at":"2026-11-20T09:30:00.000Z"}"#;
    let double = Double::new(move |_| Answer::new(200, body));
    let ran = Dl::at(&double.url).run("links get one --render '{{ url }} {{ metadata.n }} {{ metadata.i }}'");
    assert_eq!(ran.ok(), "https://go.example.com/one 1e400 123456789012345678901234567890\n");
}

/// Where there is no JSON, the flags are refused rather than ignored.
#[test]
fn commands_without_json_refuse_filters() {
    let double = Double::new(|_| Answer::new(200, "# text").header("content-type", "text/markdown"));
    let dl = Dl::at(&double.url);
    for line in [
        "links qr spring-42 --jq .url",
        "links qr spring-42 --render x",
        "links open spring-42 --jq .",
        "links copy spring-42 --jq .",
        "token --jq .",
        "open signin --no-browser --render x",
        "webhooks sample click --jq .type",
        "completions bash --jq .",
        "man --jq .",
        "help output --render x",
    ] {
        let ran = dl.run(line);
        assert!(ran.stdout.is_empty() && ran.fails(2).contains("--jq and --render"), "{line}: {ran}");
    }
    assert!(double.requests().is_empty());
    let ran = dl.run("api GET /llms.txt --jq .x");
    assert!(ran.stdout.is_empty() && ran.fails(1).contains("the response is not JSON"), "{ran}");
}

/// Errors are JSON if JSON was asked for: under a filter only `-o` and `--json` do that.
#[test]
fn errors_are_json_if_the_flags_say_so() {
    let refused = Double::new(|_| Answer::error(404, "not_found", "not found"));
    let dl = Dl::at(&refused.url).env("DL_OUTPUT", "json");
    for line in
        ["links get one --json url --jq .url", "links get one -o json --jq .url", "links get one -o jsonl --jq .url"]
    {
        assert_eq!(dl.run(line).error()["code"], "not_found", "{line}");
    }
    for line in ["links get one --jq .url", "links get one --render x"] {
        assert!(dl.run(line).fails(5).starts_with("error[not_found]: "), "{line}");
    }
    // The same before the command line is understood.
    for line in ["links get --json url", "links nothing --json=url"] {
        assert_eq!(Dl::new().run(line).error()["code"], "usage", "{line}");
    }
    assert!(dl.run("links nothing --jq .url").fails(2).starts_with("error: "));
}

/// Under a filter each failure of several is still reported.
#[test]
fn failures_of_several_are_reported_under_a_filter() {
    let refused = Double::new(|_| Answer::error(404, "not_found", "not found"));
    let ran = Dl::at(&refused.url).run("links get one two --jq .url");
    assert!(ran.fails(5).contains("one: ") && ran.stderr.contains("two: "), "{ran}");
    let dl = Dl::at(&service().url);
    dl.file("links.csv", "custom_id,web_url\none,nonsense\n");
    let ran = dl.run("links import links.csv --jq .created");
    assert!(ran.stderr.contains("links.csv:2") && ran.code == Some(3), "{ran}");
}

/// `--json` takes the next word, which may have been meant for the command.
#[test]
fn json_says_which_word_it_took() {
    let dl = Dl::at(&with_links(1).url);
    let ran = dl.run("stats --json spring-42");
    assert_eq!(ran.code, Some(2), "{ran}");
    let error = ran.error();
    assert_eq!(error["message"], "--json: unknown field \"spring-42\"");
    assert!(error["hint"].as_str().expect("a hint").ends_with("; for all fields, use -o json spring-42"), "{error}");
    // In JSON, as it is asked for.
    let error = dl.run("links get --json spring-42").error();
    assert_eq!(error["message"], "the following required arguments were not provided: <ID|->...");
    assert!(error["hint"].as_str().expect("a hint").contains("'spring-42' was read as a field"), "{error}");
    let ran = dl.run("stats spring-42 --fields nothing");
    assert!(ran.fails(2).contains("--fields: unknown field") && !ran.stderr.contains("-o json"), "{ran}");
}

/// A program for a whole response finds nothing in its records, and says why.
#[test]
fn a_program_for_the_list_is_noticed() {
    let dl = Dl::at(&with_links(3).url);
    let ran = dl.run("links list --jq '.links[0].url'");
    assert_eq!(ran.ok(), "null\nnull\nnull\n");
    assert!(ran.stderr.contains("for a whole response, which has .links, use -o json"), "{ran}");
    for line in ["links list --jq .name", "links list --jq '.links, .url'", "links list -o json --jq '.links[7]'"] {
        assert!(!dl.run(line).stderr.contains("all results are null"), "{line}");
    }
}

/// Objects are JSON in a template too, and null has its name there.
#[test]
fn templates_render_json() {
    let body = r#"{"link_id":"one","url":"https://go.example.com/one","name":null,"metadata":{"season":"spring","on":true,"none":null},"tags":["a","b"],"status":"active","enabled":true,"created_at":"2026-11-20T09:30:00.000Z","updated_at":"2026-11-20T09:30:00.000Z"}"#;
    let double = Double::new(move |_| Answer::new(200, body));
    let dl = Dl::at(&double.url);
    assert_eq!(
        dl.run("links get one --render '{{ metadata }} {{ tags }}'").ok(),
        "{\"season\":\"spring\",\"on\":true,\"none\":null} [\"a\",\"b\"]\n"
    );
    assert_eq!(dl.run("links get one --render '{{ name == null }}'").ok(), "true\n");
}
