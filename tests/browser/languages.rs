//! The pages in other languages: longer words, another direction of writing, no spaces between words.

use deeplink_testing::{Role, World, spawn};

use crate::axe;
use crate::browser::{Browser, browse};
use crate::device::{Device, IPHONE, SMALL_IPHONE, WINDOWS};
use crate::looks::look;
use crate::scene::{self, Scene};

/// One of each kind.
const LANGUAGES: [&str; 4] = ["en", "de", "ar", "ja"];
const ALL: [&str; 21] = [
    "en", "de", "fr", "es", "pt", "it", "nl", "pl", "tr", "ru", "uk", "ar", "he", "hi", "id", "vi", "th", "ja", "ko",
    "zh-CN", "zh-TW",
];

const WIDE_SCREEN: Device = Device { width: 1920, height: 1080, ..WINDOWS };

async fn world() -> World {
    let world = spawn().await;
    world.own_domain(&world.b, "go.example.com", Role::Primary).await;
    world
}

fn scenes<const N: usize>(names: [&str; N]) -> impl Iterator<Item = Scene> {
    scene::all().into_iter().filter(move |scene| names.contains(&scene.name))
}

async fn look_in(browser: &Browser, scene: &Scene, url: &str, language: &str, screen: (&str, Device), scheme: &str) {
    let (name, device) = screen;
    browser.be_in(device, language, scheme).await;
    look(browser, scene, url, &format!("{language}-{name}"), device, scheme).await;
    let what = format!("{} {language} {name} {scheme}", scene.name);
    let (lang, direction): (String, String) =
        browser.eval("[document.documentElement.lang, getComputedStyle(document.body).direction]").await;
    let expected = match language {
        "zh-CN" => "zh-Hans",
        "zh-TW" => "zh-Hant",
        other => other,
    };
    assert_eq!(lang, expected, "{what}");
    assert_eq!(direction == "rtl", ["ar", "he"].contains(&language), "{what}");
    // Nothing of the first button's text is cut off.
    let cut: bool = browser
        .eval("[...document.querySelectorAll('#open > *')].some((e) => e.scrollHeight > e.clientHeight + 1)")
        .await;
    assert!(!cut, "{what}: the first button is too small for its text");
}

async fn look_at_languages(scheme: &'static str) {
    const SCENES: [&str; 8] = ["full-app", "app", "bare", "image-gone", "expired", "disabled", "flagged", "not-found"];
    browse(world().await, async |browser| {
        for scene in scenes(SCENES) {
            let url = scene.set_up(browser).await;
            for language in LANGUAGES {
                for screen in [("phone", IPHONE), ("desktop", WINDOWS)] {
                    look_in(browser, &scene, &url, language, screen, scheme).await;
                    if scene.name != "expired" {
                        let found = axe::violations(browser).await;
                        assert_eq!(found, [""; 0], "{} {language} {scheme}", scene.name);
                    }
                }
            }
        }
    })
    .await;
}

#[tokio::test]
async fn pages_in_other_languages_look_right_in_light() {
    Box::pin(look_at_languages("light")).await;
}

#[tokio::test]
async fn pages_in_other_languages_look_right_in_dark() {
    Box::pin(look_at_languages("dark")).await;
}

#[tokio::test]
async fn every_language_fits_the_narrowest_and_the_widest_screen() {
    browse(world().await, async |browser| {
        for scene in scenes(["full-app", "bare", "apps-only", "disabled", "flagged"]) {
            let url = scene.set_up(browser).await;
            for language in ALL {
                look_in(browser, &scene, &url, language, ("narrow", SMALL_IPHONE), "light").await;
            }
            for language in ["de", "he"] {
                look_in(browser, &scene, &url, language, ("wide", WIDE_SCREEN), "dark").await;
            }
        }
    })
    .await;
}
