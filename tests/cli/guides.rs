//! The README and the guides in `docs/`: every shell block runs as it is printed, in order, against the real server. Only
//! the port is another, so that the test needs no particular one.
//!
//! Blocks marked `sh` run. What installs something, serves, or needs a host of the reader's is marked `console`, and only its
//! syntax is checked.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use deeplink_doubles::machine;
use tempfile::TempDir;

/// Marks of blocks that do not run.
const SHOWN: [&str; 11] =
    ["console", "csv", "html", "ini", "json", "kotlin", "rust,no_run", "swift", "text", "xml", "yaml"];
/// The first page has to be read in one sitting.
const README_LINES: usize = 250;

/// What every block of a guide begins with: a failure stops the guide, and an error of the service is a failure.
const PRELUDE: &str = "set -euo pipefail
curl() { command curl --fail-with-body --silent --show-error \"$@\"; }
";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace")
}

fn read(guide: &str) -> String {
    fs::read_to_string(root().join(guide)).unwrap_or_else(|error| panic!("{guide}: {error}"))
}

/// The README, and the guides in the order of its table.
fn guides() -> Vec<String> {
    let readme = read("README.md");
    let listed = readme.lines().filter(|line| line.starts_with('|')).flat_map(links);
    std::iter::once("README.md".to_owned()).chain(listed).collect()
}

/// A fenced block.
struct Block {
    /// The line of its fence.
    line: usize,
    mark: String,
    text: String,
}

/// The blocks of a page. Those in a list are indented as their fence is.
fn blocks(page: &str) -> Vec<Block> {
    let (mut blocks, mut open) = (Vec::new(), None::<(Block, usize)>);
    for (at, line) in page.lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        match (&mut open, line.trim_start().strip_prefix("```")) {
            (None, Some(mark)) => {
                open = Some((Block { line: at + 1, mark: mark.to_owned(), text: String::new() }, indent));
            }
            (Some(_), Some("")) => blocks.extend(open.take().map(|(block, _)| block)),
            (Some((block, by)), _) => {
                block.text.push_str(&line[indent.min(*by)..]);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block has no end");
    blocks
}

/// The targets of the links outside blocks.
fn links(page: &str) -> Vec<String> {
    let (mut in_block, mut targets) = (false, Vec::new());
    for line in page.lines() {
        in_block ^= line.trim_start().starts_with("```");
        if !in_block {
            let rest = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
            targets.extend(rest.map(|(target, _)| target.to_owned()));
        }
    }
    targets
}

/// The anchors of the headings, as GitHub makes them.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = page.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let slug = |heading: &str| {
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        kept.collect::<String>().to_lowercase().replace(' ', "-")
    };
    headings.map(slug).collect()
}

/// A server on its first start, and the directory of the person who tries it.
struct Service {
    process: Child,
    address: SocketAddr,
    key: PathBuf,
    home: TempDir,
    /// Open, so that the server can print.
    _stdout: BufReader<ChildStdout>,
}

impl Service {
    fn start() -> Self {
        let program = machine::program("deeplink-server");
        assert!(program.is_file(), "{} is missing: cargo build -p deeplink-server", program.display());
        let home = machine::directory();
        let log = File::create(home.path().join("server.log")).expect("a file");
        let mut process = Command::new(program)
            .current_dir(home.path())
            .env_clear()
            .env("DEEPLINK_LISTEN", "127.0.0.1:0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("the server starts");
        let mut stdout = BufReader::new(process.stdout.take().expect("a pipe"));
        let mut next = || {
            let mut line = String::new();
            let read = stdout.read_line(&mut line).expect("text");
            assert!(read > 0, "{}", fs::read_to_string(home.path().join("server.log")).unwrap_or_default());
            line.trim().to_owned()
        };
        let address = next().strip_prefix("listening on http://").expect("an address").parse().expect("an address");
        let secret = loop {
            let line = next();
            if line.starts_with("dl_live_") {
                break line;
            }
        };
        let key = home.path().join("key.txt");
        fs::write(&key, secret).expect("a file");
        Self { process, address, key, home, _stdout: stdout }
    }

    /// Runs the shell blocks of a guide in one shell; returns how many there are.
    fn run(&self, guide: &str) -> usize {
        let (mut script, mut count) = (PRELUDE.to_owned(), 0);
        for block in blocks(&read(guide)).iter().filter(|block| block.mark == "sh") {
            let text = block.text.replace(":8080", &format!(":{}", self.address.port()));
            write!(script, "echo '== {guide}:{}' >&2\n{text}", block.line).expect("a string");
            count += 1;
        }
        let programs = machine::program("dl").parent().expect("a directory").display().to_string();
        let path = option_env!("PATH").unwrap_or("/usr/bin:/bin");
        let ran = Command::new("bash")
            .args(["-c", &script])
            .current_dir(self.home.path())
            .env_clear()
            .env("HOME", self.home.path())
            .env("PATH", format!("{programs}:{path}"))
            .env("DL_KEYRING", "off")
            // `dl login --with-key` asks for the key, and takes it from there where there is no terminal.
            .stdin(File::open(&self.key).expect("the key"))
            .output()
            .expect("bash");
        let (said, told) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert!(ran.status.success(), "{guide}: {}\n{said}\n--- stderr\n{told}", ran.status);
        count
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn every_shell_block_of_the_readme_and_the_guides_runs() {
    let service = Service::start();
    let count: usize = guides().iter().map(|guide| service.run(guide)).sum();
    assert!(count > 30, "{count} blocks");
}

/// Whoever writes a block decides whether it runs; few do not.
#[test]
fn every_block_of_the_guides_says_whether_it_runs() {
    let (mut run, mut shown) = (0, 0);
    for guide in guides() {
        for block in blocks(&read(&guide)) {
            let is_known = block.mark == "sh" || SHOWN.contains(&block.mark.as_str());
            assert!(is_known, "{guide}:{}: {:?}", block.line, block.mark);
            run += usize::from(block.mark == "sh");
            if block.mark == "console" {
                check_syntax(&format!("{guide}:{}", block.line), &block.text);
                shown += 1;
            }
        }
    }
    assert!(shown * 2 <= run, "{shown} blocks are only checked for syntax, {run} run");
}

/// Fails unless the shell can parse a block.
fn check_syntax(place: &str, text: &str) {
    let checked = Command::new("bash").args(["-n", "-c", text]).output().expect("bash");
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success() && said.is_empty(), "{place}: {said}");
}

#[test]
fn links_of_the_guides_lead_to_what_is_there() {
    let pages = guides();
    assert!(read("README.md").lines().count() <= README_LINES);
    for entry in fs::read_dir(root().join("docs")).expect("docs/") {
        let path = entry.expect("an entry").path();
        let name = format!("docs/{}", path.file_name().expect("a name").to_string_lossy());
        let is_listed = path.extension().is_none_or(|kind| kind != "md") || pages.contains(&name);
        assert!(is_listed, "README.md does not name {name}");
    }
    for page in &pages {
        let text = read(page);
        for target in links(&text).iter().filter(|target| !target.starts_with("http")) {
            let (file, anchor) = target.split_once('#').unwrap_or((target.as_str(), ""));
            let folder = root().join(page).parent().expect("a directory").to_owned();
            let found = if file.is_empty() { root().join(page) } else { folder.join(file) };
            assert!(found.exists(), "{page}: {target}");
            if !anchor.is_empty() {
                let headings = anchors(&fs::read_to_string(&found).expect("a page"));
                assert!(headings.contains(anchor), "{page}: {target} is none of {headings:?}");
            }
        }
    }
}
