//! What a shell gets when a user presses Tab: values from the service and the configuration, or nothing at all.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::json;

use deeplink_testing::dl::{Dl, KEY};
use deeplink_testing::double::{Answer, Double, affiliate, app, domain, link};

/// What bash is offered after this line, of which the last word is incomplete.
fn offered(dl: Dl, line: &str) -> Vec<String> {
    let words = line.split(' ').count();
    let dl = dl
        .env("DL_COMPLETE", "bash")
        .env("_CLAP_COMPLETE_INDEX", &(words - 1).to_string())
        .env("_CLAP_IFS", "\n")
        .env("_CLAP_COMPLETE_COMP_TYPE", "9");
    // An empty last word is an argument too.
    let quoted: Vec<String> = line.split(' ').map(|word| format!("'{word}'")).collect();
    let ran = dl.run(&format!("-- {}", quoted.join(" ")));
    assert!(ran.stderr.is_empty(), "{line}: {ran}");
    ran.ok().lines().map(str::to_owned).collect()
}

fn service() -> Double {
    Double::new(|request| match request.path() {
        "/v1/links" => {
            let prefix = request.query("id_prefix").unwrap_or_default();
            let ids = ["spring-42", "spring-43", "winter-1", "$(id)"];
            let links: Vec<_> = ids.into_iter().filter(|id| id.starts_with(prefix)).map(link).collect();
            Answer::json(200, &json!({"links": links, "next_cursor": null}))
        }
        "/v1/tags" => Answer::json(200, &json!({"tags": [{"tag": "spring", "links": 2}, {"tag": "a b", "links": 1}]})),
        "/v1/domains" => Answer::json(200, &json!([domain(true)])),
        "/v1/apps" => Answer::json(200, &json!([app("ios")])),
        "/v1/affiliates" => Answer::json(200, &json!({"affiliates": [affiliate()], "next_cursor": null})),
        _ => Answer::error(404, "not_found", "no"),
    })
}

#[test]
fn ids_come_from_the_service() {
    let double = service();
    let at = || Dl::at(&double.url);
    assert_eq!(offered(at(), "dl links get sp"), ["spring-42", "spring-43"]);
    assert_eq!(offered(at(), "dl stats win"), ["winter-1"]);
    assert_eq!(offered(at(), "dl links list --tag s"), ["spring"]);
    assert_eq!(offered(at(), "dl links list --tag a"), ["a b"], "the script quotes it");
    assert_eq!(offered(at(), "dl links list --tag=s"), ["--tag=spring"]);
    assert_eq!(offered(at(), "dl links get "), ["spring-42", "spring-43", "winter-1"], "and no options");
    assert_eq!(offered(at(), "dl domains verify g"), ["go.example.com"]);
    assert_eq!(offered(at(), "dl apps delete app_"), [app("ios")["id"].as_str().expect("an id")]);
    assert_eq!(offered(at(), "dl links create --affiliate aff_"), [affiliate()["id"].as_str().expect("an id")]);
    // What a shell would not take as one word is not offered.
    assert!(offered(at(), "dl links get $").is_empty());
    assert!(double.requests().iter().all(|request| request.method == "GET"));
}

#[test]
fn profiles_and_values_need_no_service() {
    let dl = || Dl::new().stored("default", "http://127.0.0.1:1", KEY).stored("staging", "http://127.0.0.1:1", KEY);
    assert_eq!(offered(dl(), "dl profile use s"), ["staging"]);
    assert_eq!(offered(dl(), "dl links list --profile d"), ["default"]);
    assert_eq!(offered(dl(), "dl links list --status de"), ["deleted"]);
    assert_eq!(offered(dl(), "dl links list -o j"), ["json", "jsonl"]);
    assert_eq!(offered(dl(), "dl links list --output=j"), ["--output=json", "--output=jsonl"]);
    assert_eq!(offered(dl(), "dl links list --fields lin"), ["link_id"]);
    assert_eq!(offered(dl(), "dl links list --json url,sta"), ["url,status"]);
    assert_eq!(offered(dl(), "dl apps list --json=bun"), ["--json=bundle_id"]);
    assert_eq!(offered(dl(), "dl stats --group-by referer"), ["referer_host"]);
    let groups = offered(dl(), "dl stats --group-by ").into_iter();
    let tops: Vec<String> = groups.filter(|group| !["day", "hour"].contains(&group.as_str())).collect();
    assert_eq!(offered(dl(), "dl stats --top "), tops);
    assert!(offered(dl(), "dl li").contains(&"links".to_owned()));
}

/// The profile on the line decides whose IDs are offered.
#[test]
fn the_profile_of_the_line_is_asked() {
    let double = service();
    let dl = Dl::new().stored("default", "http://127.0.0.1:1", KEY).stored("staging", &double.url, KEY);
    assert_eq!(offered(dl, "dl --profile staging links get sp"), ["spring-42", "spring-43"]);
    // Bash makes three words of --profile=staging.
    let dl = Dl::new().stored("default", "http://127.0.0.1:1", KEY).stored("staging", &double.url, KEY);
    assert_eq!(offered(dl, "dl links list --profile = staging --tag s"), ["spring"]);
}

/// A pipe may stay silent for ever, and what it holds is for the command.
#[test]
fn a_key_that_is_not_in_a_file_is_not_read() {
    let double = service();
    let dl = || {
        let dl = Dl::new().env("DL_BASE_URL", &double.url);
        let made = std::process::Command::new("mkfifo").arg("key").current_dir(dl.dir()).status();
        assert!(made.expect("mkfifo").success());
        dl
    };
    assert!(offered(dl().env("DL_API_KEY_FILE", "key"), "dl links get sp").is_empty());
    assert!(offered(dl(), "dl --api-key-file key links get sp").is_empty());
    assert!(offered(dl(), "dl --api-key-file /dev/stdin links get sp").is_empty());
    assert!(double.requests().is_empty());
    let dl = dl();
    dl.secret_file("key.txt", KEY);
    assert_eq!(offered(dl, "dl --api-key-file key.txt links get win"), ["winter-1"]);
}

/// A variable that no script has set must not turn every command into nothing.
#[test]
fn an_unknown_shell_is_an_error() {
    let dl = Dl::at(&service().url).env("DL_COMPLETE", "true");
    for line in ["links list", "--version"] {
        let ran = dl.run(line);
        assert!(ran.stdout.is_empty() && ran.fails(2).contains("DL_COMPLETE is set, but not to one of bash"), "{ran}");
        assert!(ran.says("hint: unset DL_COMPLETE"), "{ran}");
    }
    assert_eq!(dl.run("-- dl links get sp").ok(), "");
}

#[test]
fn whatever_fails_nothing_is_printed() {
    assert!(offered(Dl::new(), "dl links get sp").is_empty(), "nothing is configured");
    assert!(offered(Dl::at("http://127.0.0.1:1"), "dl links get sp").is_empty(), "nobody listens");
    assert!(offered(Dl::at("http://127.0.0.1:1"), "dl links get ").is_empty(), "options are not offered instead");
    assert!(!offered(Dl::at("http://127.0.0.1:1"), "dl links get -").is_empty());
    let refusing = Double::new(|_| Answer::error(401, "unauthorized", "no"));
    assert!(offered(Dl::at(&refusing.url), "dl links get sp").is_empty());
    let hostile = Double::new(|_| Answer::new(200, "<html>"));
    assert!(offered(Dl::at(&hostile.url), "dl links get sp").is_empty());
    let broken = Dl::at(&refusing.url);
    std::fs::create_dir_all(broken.config("")).expect("a directory");
    std::fs::write(broken.config("config.toml"), "[").expect("a file");
    assert!(offered(broken, "dl profile use s").is_empty());
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let begun = Instant::now();
    let url = format!("http://{}", silent.local_addr().expect("an address"));
    assert!(offered(Dl::at(&url), "dl links get sp").is_empty());
    assert!(begun.elapsed() < Duration::from_secs(10), "the limit is two seconds");
}

/// The scripts are those that ask `dl`, and bash accepts its own.
#[test]
fn scripts_ask_dl() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = Dl::new().run(&format!("completions {shell}"));
        assert!(script.ok().contains("DL_COMPLETE"), "{shell}: {script}");
    }
    let dl = Dl::new();
    dl.file("dl.bash", dl.run("completions bash").ok());
    let mut bash = std::process::Command::new("bash");
    bash.args(["-n", "dl.bash"]).current_dir(dl.dir()).stdin(Stdio::null());
    assert!(bash.status().expect("bash").success());
}

/// Bash splits a line at `=`, `:` and `@`, and replaces only the last part.
#[test]
fn bash_completes_what_it_splits() {
    let dl = Dl::new();
    dl.file("dl.bash", dl.run("completions bash").ok());
    // In place of dl: it writes down the word that is completed, and offers what the test says.
    dl.file(
        "try.bash",
        r#"dl() { shift; local word=${@:$((_CLAP_COMPLETE_INDEX + 1)):1}; echo "$word" >&3; printf '%s\n' $OFFER; }
. ./dl.bash
exec 3>asked
try() {
    local line=$1 typed=$2; shift 2
    COMP_LINE=$line COMP_POINT=${#line} COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_TYPE=9
    COMPREPLY=()
    _clap_complete_dl dl "$typed" "${COMP_WORDS[COMP_CWORD]}" 2>/dev/null
    printf '<%s>' "${COMPREPLY[@]}"; echo
}
IFS=$'\n'
OFFER=$'--output=json\n--output=jsonl' try 'dl links list --output=j' j dl links list --output = j
OFFER=$'--output=json' try 'dl links list --output=' '' dl links list --output =
OFFER=$'https://go.example.com/x' try 'dl links get https://go' //go dl links get https : //go
OFFER=$'Spring sale' try 'dl links list --tag Sp' Sp dl links list --tag Sp
OFFER=$'Spring sale' try 'dl links list --tag "Sp' Sp dl links list --tag '"Sp'
"#,
    );
    let mut bash = std::process::Command::new("bash");
    bash.args(["--norc", "try.bash"]).current_dir(dl.dir()).stdin(Stdio::null());
    let ran = bash.output().expect("bash");
    assert_eq!(
        String::from_utf8_lossy(&ran.stdout),
        "<json><jsonl>\n<json>\n<//go.example.com/x>\n<Spring\\ sale>\n<Spring sale>\n",
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    let asked = std::fs::read_to_string(dl.dir().join("asked")).expect("what dl was asked");
    assert_eq!(asked, "--output=j\n--output=\nhttps://go\nSp\nSp\n");
}
