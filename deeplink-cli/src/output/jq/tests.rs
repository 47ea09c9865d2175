use super::*;

fn results(code: &str, json: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let program = Program::read(code, false).unwrap_or_else(|stop| panic!("{code}: {stop:?}"));
    let print = |result| {
        lines.push(match result {
            Output::Text(text) => text,
            Output::Json(json) => format!("json {json}"),
            Output::Message(message) => format!("message {message}"),
        });
        Ok(())
    };
    program.run(json, print).unwrap_or_else(|stop| panic!("{code}: {stop:?}"));
    lines
}

#[test]
fn strings_are_raw_and_all_else_is_json() {
    let json = r#"{"url":"https://go.example.com/é","n":1e400,"tags":["a","b"],"o":{"z":1,"a":null}}"#;
    assert_eq!(results(".url", json), ["https://go.example.com/é"]);
    assert_eq!(results(".tags[]", json), ["a", "b"]);
    assert_eq!(results(".n, .o, .none", json), ["json 1e400", r#"json {"z":1,"a":null}"#, "json null"]);
    assert_eq!(results("[.tags[] | ascii_upcase] | join(\",\")", json), ["A,B"]);
    assert_eq!(results("empty", json), Vec::<String>::new());
    assert_eq!(results("env, (env | type)", json), ["json null", "null"], "the environment stays here");
}

#[test]
fn a_wrong_program_says_where() {
    for (code, place) in [
        (".url |", "at the end of"),
        (".url | nothing", "nothing/0 is not defined at column 8"),
        (".[", "expected closing bracket at the end of"),
        (".\"é\" | )", "at column 8"),
        ("$x", "variable $x is not defined at column 1"),
        ("", "at the end of"),
    ] {
        let Err(Stop::Failed(failure)) = Program::read(code, false) else { panic!("{code} was read") };
        assert!(failure.message.contains(place), "{code}: {}", failure.message);
        assert_eq!(failure.exit, Exit::Usage);
    }
}

#[test]
fn a_failure_on_a_record_ends_the_command() {
    let program = Program::read(".url.host", false).unwrap_or_else(|stop| panic!("{stop:?}"));
    let Err(Stop::Failed(failure)) = program.run(r#"{"url":"x"}"#, |_| Ok(())) else { panic!("it ran") };
    assert!(failure.exit == Exit::Failure && failure.message.starts_with("--jq: "), "{}", failure.message);
    let halted = Program::read("halt", false).unwrap_or_else(|stop| panic!("{stop:?}")).run("{}", |_| Ok(()));
    assert!(matches!(halted, Ok(End::Halted)));
}

#[test]
fn messages_are_for_stderr() {
    assert_eq!(results("debug", "1"), ["message [\"DEBUG:\",1]", "json 1"]);
    assert_eq!(results("stderr | empty", "\"a\""), ["message a"]);
    let program = Program::read("\"gone\\n\" | halt_error", false).unwrap_or_else(|stop| panic!("{stop:?}"));
    let Err(Stop::Failed(failure)) = program.run("{}", |_| panic!("it only fails")) else { panic!("it ran") };
    assert_eq!(failure.message, "--jq: gone");
}

#[test]
fn every_result_is_json() {
    assert_eq!(results("nan, infinite, [-infinite, 1]", "0"), ["json null", "json null", "json [null,1]"]);
    assert_eq!(results("{a: nan, b: (\"x\" | tobytes)}", "0"), [r#"json {"a":null,"b":"x"}"#]);
}

fn failure(code: &str, json: &str) -> Box<Failure> {
    let program = Program::read(code, false).unwrap_or_else(|stop| panic!("{code}: {stop:?}"));
    let Err(Stop::Failed(failure)) = program.run(json, |_| Ok(())) else { panic!("{code} did not fail") };
    failure
}

/// Errors are raw text and name the record.
#[test]
fn an_error_says_what_and_where() {
    let json = r#"{"link_id":"spring-42","url":"x","clicks":3}"#;
    for (code, wanted) in [
        ("error(\"no \\(.url)\")", "--jq: no x (link_id spring-42)"),
        ("error({a: 1})", "--jq: {\"a\":1} (link_id spring-42)"),
        ("[.] | @csv", "is not valid in a CSV or TSV row (link_id spring-42)"),
        (
            ".url | @csv",
            "@csv requires an array, such as [.link_id, .url] | @csv; this value is of type string (link_id",
        ),
        (". | @tsv", "@tsv requires an array, such as [.link_id, .url] | @tsv; this value is of type object (link_id"),
    ] {
        let message = failure(code, json).message;
        assert!(message.contains(wanted), "{code}: {message}");
    }
    // A whole document has no ID, and its lists would be long.
    assert_eq!(failure("error(\"no\")", r#"{"links":[{"link_id":"one"}]}"#).message, "--jq: no");
}

#[test]
fn cells_are_made_safe_for_spreadsheets() {
    for (safe, csv, tsv) in [
        (false, "\"=1+1\",\"-a\",\"b\",-5", "=1+1\t-a\tb\t-5"),
        (true, "\"'=1+1\",\"'-a\",\"b\",-5", "'=1+1\t'-a\tb\t-5"),
    ] {
        let program = Program::read("@csv, @tsv", safe).unwrap_or_else(|stop| panic!("{stop:?}"));
        let mut lines = Vec::new();
        let print = |output| {
            let Output::Text(text) = output else { panic!("not a text") };
            lines.push(text);
            Ok(())
        };
        program.run(r#"["=1+1","-a","b",-5]"#, print).unwrap_or_else(|stop| panic!("{stop:?}"));
        assert_eq!(lines, [csv, tsv], "{safe}");
    }
}

/// Otherwise the stack would overflow, which ends the process with SIGABRT.
#[test]
fn endless_recursion_fails() {
    for code in ["def f: 1 + f; f", "def f: [f]; f", "def f: (f | .a); path(f)", "def f: f as $x | $x; f"] {
        let message = failure(code, r#"{"link_id":"spring-42"}"#).message;
        assert_eq!(message, "--jq: the program recurses too deeply (link_id spring-42)", "{code}");
    }
    assert_eq!(results("[limit(100000; repeat(1))] | length", "0"), ["json 100000"], "a tail call needs no stack");
}

#[test]
fn deep_programs_and_results_are_refused() {
    for (code, why) in [
        (format!("{}{}", "[".repeat(3_000), "]".repeat(3_000)), "nested more than 256 levels"),
        (format!("1{}", "+1".repeat(40_000)), "longer than 65536 bytes"),
    ] {
        let Err(Stop::Failed(failure)) = Program::read(&code, false) else { panic!("it was read") };
        assert!(failure.exit == Exit::Usage && failure.message.contains(why), "{}", failure.message);
    }
    let message = failure("reduce range(2000) as $i (null; [.])", "0").message;
    assert_eq!(message, "--jq: a result is nested more than 1000 levels deep");
}
