//! `dl links qr` on a terminal: the code is read back as a camera would see it, on dark and light backgrounds.

use deeplink_client::qr_reader::read_luma;

use crate::screen::Screen;
use crate::server::Server;
use deeplink_testing::dl::Dl;
use deeplink_testing::double::{Answer, Double, link};

const URL: &str = "https://go.example.com/spring-42";
const LINE: &str = "links qr spring-42";

fn service() -> Double {
    Double::new(|request| match request.path().strip_prefix("/v1/links/") {
        Some("gone") => Answer::error(404, "not_found", "there is no such link"),
        Some(id) if !id.contains('/') => Answer::json(200, &link(id)),
        _ => panic!("unexpected request for {}", request.target),
    })
}

fn user(double: &Double, locale: &str) -> Dl {
    Dl::at(&double.url).env("LANG", locale)
}

/// A terminal's own colours, as luma.
#[derive(Debug, Clone, Copy)]
struct Theme {
    text: u8,
    background: u8,
}

const DARK: Theme = Theme { text: 230, background: 20 };
const LIGHT: Theme = Theme { text: 30, background: 250 };

/// One character as it is displayed.
#[derive(Debug, Clone, Copy)]
struct Cell {
    character: char,
    text: u8,
    background: u8,
}

/// Shows text as a terminal does: black and white of the 256-colour cube, and the reset to its own colours.
fn cells(line: &str, theme: Theme) -> Vec<Cell> {
    let (mut text, mut background) = (theme.text, theme.background);
    let (mut cells, mut rest) = (Vec::new(), line);
    while let Some(character) = rest.chars().next() {
        if let Some(code) = rest.strip_prefix("\u{1b}[") {
            let (code, after) = code.split_once('m').expect("a colour");
            let numbers: Vec<u8> = code.split(';').map(|number| number.parse().expect("a number")).collect();
            let luma = |number| {
                if number == 16 {
                    0
                } else if number == 231 {
                    255
                } else {
                    panic!("colour {number}")
                }
            };
            for part in numbers.chunks(3) {
                match *part {
                    [38, 5, number] => text = luma(number),
                    [48, 5, number] => background = luma(number),
                    [0] => (text, background) = (theme.text, theme.background),
                    _ => panic!("{code}"),
                }
            }
            rest = after;
            continue;
        }
        cells.push(Cell { character, text, background });
        rest = &rest[character.len_utf8()..];
    }
    assert_eq!((text, background), (theme.text, theme.background), "the colours are reset: {line:?}");
    cells
}

/// What a camera sees: 8 by 16 pixels for a character.
struct Photo {
    width: usize,
    rows: Vec<Vec<u8>>,
}

impl Photo {
    /// A photo of these lines, with some of the terminal around them.
    fn of(lines: &[&str], theme: Theme) -> Self {
        let lines: Vec<_> = lines.iter().map(|line| cells(line, theme)).collect();
        let width = (lines.iter().map(Vec::len).max().unwrap_or(0) + 8) * 8;
        let edge = || vec![vec![theme.background; width]; 64];
        let mut rows = edge();
        for line in &lines {
            for y in 0..16 {
                let mut row = vec![theme.background; 32];
                for cell in line {
                    for x in 0..8 {
                        let inked = match cell.character {
                            '█' => true,
                            '▀' => y < 8,
                            '▄' => y >= 8,
                            ' ' => false,
                            // As in most fonts: about half of it is ink.
                            '#' => matches!(x, 1 | 2 | 5 | 6) || matches!(y, 4 | 5 | 10 | 11),
                            other => panic!("{other} in the code"),
                        };
                        row.push(if inked { cell.text } else { cell.background });
                    }
                }
                row.resize(width, theme.background);
                rows.push(row);
            }
        }
        rows.extend(edge());
        Self { width, rows }
    }

    /// Luma of the quiet zone's first corner.
    fn corner(&self) -> u8 {
        self.rows[64 + 2][32 + 2]
    }

    fn read(&self) -> Option<String> {
        let luma = self.rows.concat();
        read_luma(self.width.try_into().ok()?, self.rows.len().try_into().ok()?, luma)
    }
}

/// The lines of the code, and the text below them.
fn parts(shown: &str) -> (Vec<&str>, Vec<&str>) {
    let lines: Vec<&str> = shown.lines().collect();
    let end = lines.iter().position(|line| line.contains("https://")).expect("the URL is below");
    (lines[..end].to_vec(), lines[end..].to_vec())
}

#[test]
fn black_on_white_is_read_on_every_background() {
    let double = service();
    // Half blocks, then two characters for each module.
    for (locale, columns, lines) in [("C.UTF-8", 33, 17), ("C", 66, 33)] {
        for flag in ["", " --invert"] {
            let (code, shown) = Screen::open(user(&double, locale), &format!("{LINE}{flag}")).end();
            assert_eq!(code, Some(0), "{shown}");
            let (drawn, below) = parts(&shown);
            assert_eq!((drawn.len(), below.as_slice()), (lines, &[URL][..]));
            assert!(drawn.iter().all(|line| cells(line, DARK).len() == columns), "{shown}");
            assert_eq!(drawn.concat().is_ascii(), locale == "C");
            for theme in [DARK, LIGHT] {
                let photo = Photo::of(&drawn, theme);
                assert_eq!((photo.corner(), photo.read().as_deref()), (255, Some(URL)), "{theme:?}\n{shown}");
            }
        }
    }
    assert!(double.lines().iter().all(|line| line == "GET /v1/links/spring-42"), "drawn here: {:?}", double.lines());
}

#[test]
fn a_link_of_the_service_is_read_from_the_terminal() {
    let server = Server::start();
    let you = server.user("you");
    you.run("links create https://example.com/p/42 --id spring-42").ok();
    let key = you.run("token").ok().trim_end().to_owned();
    let dl = Dl::at(&server.url).env("DL_API_KEY", &key).env("LANG", "C.UTF-8");
    let (code, shown) = Screen::open(dl, LINE).end();
    let url = format!("{}/r/spring-42", server.url);
    let lines: Vec<&str> = shown.lines().filter(|line| line.starts_with("\u{1b}[38;5;16")).collect();
    assert!(
        code == Some(0) && shown.contains(&format!("\n{url}\n")) && shown.contains("the link expires in 30d"),
        "{shown}"
    );
    assert_eq!(Photo::of(&lines, DARK).read(), Some(url), "{shown}");
}

#[test]
fn without_colours_light_modules_have_the_colour_of_text_and_invert_swaps() {
    let double = service();
    for (locale, quiet) in [("de_CH.UTF-8", "█"), ("POSIX", "##")] {
        for (name, value) in [("NO_COLOR", "1"), ("TERM", "dumb")] {
            for (flag, theme) in [("", DARK), (" --invert", LIGHT)] {
                let dl = user(&double, locale).env(name, value);
                let (code, shown) = Screen::open(dl, &format!("{LINE}{flag}")).end();
                assert!(code == Some(0) && !shown.contains('\u{1b}'), "{shown}");
                let (drawn, _) = parts(&shown);
                assert_eq!(drawn[0].starts_with(quiet), flag.is_empty(), "{shown}");
                let photo = Photo::of(&drawn, theme);
                assert_eq!(photo.read().as_deref(), Some(URL), "{theme:?}\n{shown}");
                if quiet == "█" {
                    assert!(photo.corner() > 200, "dark on light\n{shown}");
                }
            }
        }
        let (_, shown) = Screen::open(user(&double, locale), &format!("{LINE} --color never")).end();
        assert!(shown.starts_with(quiet) && !shown.contains('\u{1b}'), "{shown}");
    }
}

#[test]
fn a_narrow_terminal_gets_the_address_and_a_hint() {
    let double = service();
    for (locale, columns, fits) in [("C.UTF-8", 33, true), ("C.UTF-8", 32, false), ("C", 66, true), ("C", 65, false)] {
        let dl = user(&double, locale).env("TERM", "xterm");
        let (code, shown) = Screen::sized(dl, LINE, columns).end();
        assert!(code == Some(0) && shown.lines().any(|line| line == URL), "{shown}");
        assert_eq!(shown.contains("\u{1b}[38;5;16") || shown.contains("\u{1b}[48;5;231"), fits, "{columns}: {shown}");
        let needs =
            if locale == "C" { "needs 66 columns (half of that" } else { "needs 33 columns, but the terminal has 32" };
        assert_eq!(shown.contains(needs) && shown.contains("--out FILE"), !fits, "{shown}");
    }
}

#[test]
fn a_low_terminal_gets_the_code_and_a_hint() {
    let double = service();
    for (locale, rows, fits) in [("C.UTF-8", 19, true), ("C.UTF-8", 18, false), ("C", 35, true), ("C", 34, false)] {
        let dl = user(&double, locale).env("TERM", "xterm");
        let (code, shown) = Screen::of_size(dl, LINE, 100, rows).end();
        assert!(code == Some(0) && shown.lines().any(|line| line == URL), "{shown}");
        let needs = match locale {
            "C" => "needs 35 rows (half of that with a UTF-8 locale), but the terminal has 34",
            _ => "needs 19 rows, but the terminal has 18: enlarge it, or use --out FILE",
        };
        assert_eq!(shown.contains(needs), !fits, "{shown}");
        assert_eq!(shown.contains("note:") || shown.contains("note\u{1b}"), !fits, "{shown}");
    }
}

#[test]
fn several_codes_stand_one_below_the_other() {
    let double = service();
    let (code, shown) = Screen::open(user(&double, "C.UTF-8"), "links qr spring-42 gone other-1").end();
    assert_eq!(code, Some(10), "{shown}");
    let mut rest: Vec<&str> = shown.lines().filter(|line| !line.contains("gone")).collect();
    for id in ["spring-42", "other-1"] {
        let end = rest.iter().position(|line| line.starts_with("https://")).expect("an address");
        let drawn: Vec<&str> = rest[..end].iter().copied().filter(|line| line.starts_with("\u{1b}[38;5;16")).collect();
        assert_eq!(Photo::of(&drawn, DARK).read().as_deref(), Some(rest[end]), "{shown}");
        assert_eq!(rest[end], format!("https://go.example.com/{id}"));
        rest.drain(..=end);
    }
    assert!(shown.contains("gone: there is no such link") && shown.contains("1 of 3 failed"), "{shown}");
}

#[test]
fn show_draws_into_a_pipe_too() {
    let double = service();
    let dl = || user(&double, "C.UTF-8");
    let piped = dl().run(&format!("{LINE} --show"));
    let (drawn, below) = parts(piped.ok());
    assert_eq!((Photo::of(&drawn, DARK).read().as_deref(), below.as_slice()), (Some(URL), &[URL][..]), "{piped}");
    assert!(piped.stderr.is_empty() && !piped.stdout.contains('\u{1b}'), "{piped}");
    let for_paper = dl().run(&format!("{LINE} --show --invert"));
    assert!(Photo::of(&parts(for_paper.ok()).0, LIGHT).corner() > 200);
    assert!(dl().run(&format!("{LINE} --show --color always")).ok().starts_with("\u{1b}[38;5;16;48;5;231m"));
}

#[test]
fn a_drawing_and_a_file_go_together() {
    let double = Double::new(|request| match request.path() {
        "/v1/links/spring-42/qr.png" => deeplink_testing::double::qr_code(deeplink_core::qr::QrFormat::Png),
        _ => Answer::json(200, &link("spring-42")),
    });
    let dl = user(&double, "C.UTF-8");
    let ran = dl.run(&format!("{LINE} --show --out code.png --verify"));
    assert_eq!(Photo::of(&parts(ran.ok()).0, DARK).read().as_deref(), Some(URL));
    assert_eq!(ran.stderr, format!("code.png written\nnote: the code was decoded and contains {URL}\n"));
    assert!(dl.dir().join("code.png").is_file());
    // With a file and without --show, a terminal only shows the name of the file.
    let (code, shown) = Screen::open(dl, &format!("{LINE} --out other.png")).end();
    assert_eq!((code, shown.as_str()), (Some(0), "other.png\n"));
}

#[test]
fn no_image_goes_to_a_terminal() {
    let double = Double::new(|request| match request.path().rsplit_once("qr.") {
        Some((_, "svg")) => Answer::new(200, "<svg>\u{1b}]0;x\u{7}</svg>").header("content-type", "image/svg+xml"),
        Some(_) => deeplink_testing::double::qr_code(deeplink_core::qr::QrFormat::Png),
        None => Answer::json(200, &link("spring-42")),
    });
    for line in ["--out -", "--out - --format png", "--out /dev/tty", "--out /dev/stdout"] {
        let (code, shown) = Screen::open(user(&double, "C.UTF-8"), &format!("{LINE} {line}")).end();
        assert!(code == Some(2) && !shown.contains("IHDR") && shown.contains("terminal"), "{line}: {shown}");
    }
    let (code, shown) = Screen::open(user(&double, "C.UTF-8"), &format!("{LINE} --out - --format svg")).end();
    assert_eq!((code, shown.as_str()), (Some(0), "<svg>\\u{1b}]0;x\\u{7}</svg>\n"), "text, made harmless");
}

#[test]
fn what_a_drawing_leaves_out_and_where_the_link_leads_is_said() {
    let double = Double::new(|request| {
        let mut found = link(request.path().trim_start_matches("/v1/links/"));
        match request.path() {
            "/v1/links/ends-1" => found["expires_at"] = "2099-01-01T00:00:00.000Z".into(),
            "/v1/links/ended-1" => found["status"] = "expired".into(),
            _ => {}
        }
        Answer::json(200, &found)
    });
    for (line, says) in [
        ("links qr spring-42 --size 300 -q", ""),
        ("links qr spring-42 --size 300", "the terminal shows a plain code; --size applies only with --out FILE"),
        (
            "links qr spring-42 --format svg --dot-type dots --hide-logo",
            "a plain code; --format, --dot-type, --hide-logo apply only with --out FILE",
        ),
        ("links qr spring-42 --format png", "a plain code; --format applies only"),
        ("links qr ends-1", "the link expires 2099-01-01"),
        ("links qr ended-1", "ended-1 is expired: people who scan its code see a notice"),
    ] {
        let (code, shown) = Screen::open(user(&double, "C.UTF-8"), line).end();
        assert!(code == Some(0) && shown.contains(says), "{line}: {shown}");
        let notes = shown.contains("note") || shown.contains("warning");
        assert_eq!(notes, !says.is_empty(), "{line}: {shown}");
    }
}

/// P5: a URL with control characters is drawn as it is, and printed with visible escapes.
#[test]
fn a_hostile_address_moves_nothing() {
    const HOSTILE: &str = "https://go.example.com/a\u{1b}]0;owned\u{7}\u{202e}b";
    let double = Double::new(|request| {
        let mut found = link("spring-42");
        found["url"] = HOSTILE.into();
        match request.path() {
            "/v1/links/spring-42" => Answer::json(200, &found),
            _ => deeplink_testing::double::qr_code(deeplink_core::qr::QrFormat::Png),
        }
    });
    let (code, shown) = Screen::open(user(&double, "C.UTF-8"), LINE).end();
    let (drawn, below) = parts(&shown);
    assert_eq!((code, below.as_slice()), (Some(0), &["https://go.example.com/a\\u{1b}]0;owned\\u{7}\\u{202e}b"][..]));
    assert_eq!(Photo::of(&drawn, DARK).read().as_deref(), Some(HOSTILE));
    let (code, shown) = Screen::open(user(&double, "C.UTF-8"), &format!("{LINE} --out x.png --verify")).end();
    assert!(code == Some(11) && !shown.contains("\u{1b}]") && shown.contains("\\u{1b}]0;owned"), "{shown}");
}
