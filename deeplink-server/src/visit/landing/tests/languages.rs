//! The page in every language.

use super::*;

#[test]
fn the_page_says_its_language_and_direction() {
    for language in Language::ALL {
        let page = dom(IPHONE, &EVERYTHING, Given { language, ..TEXTS });
        let html = &page.all("html")[0];
        assert_eq!(html.attr("lang").as_deref(), Some(language.tag()));
        assert_eq!(html.attr("dir").as_deref(), language.is_rtl().then_some("rtl"));
        // The creator's texts are in whatever language they are.
        for (element, text) in
            [("header", "Spring sale"), ("p", "Seeds, tools and pots."), ("span", "Claim the discount")]
        {
            let found = page.all(element).into_iter().find(|element| element.text().contains(text)).expect(text);
            assert_eq!(found.attr("dir").as_deref(), Some("auto"), "{text}");
        }
    }
}

#[test]
fn every_word_is_in_the_visitors_language() {
    let words = |language, agent: &str, link: &LinkView<'_>| {
        let page = dom(agent, link, Given { language, ..NO_TEXTS });
        let elements = ["open", "copies", "web", "store", "ios-store", "android-store", "none", "by", "hint"];
        let shown: Vec<_> = elements.into_iter().filter_map(|id| Some(page.by_id(id)?.text())).collect();
        let code = page.by_id("qr").and_then(|code| code.attr("alt"));
        let caption = page.all("figcaption").first().map(Element::text);
        shown.into_iter().chain(code).chain(caption).collect::<Vec<_>>()
    };
    assert_eq!(
        words(Language::De, IPHONE, &EVERYTHING),
        [
            "In der App öffnen",
            "Beim Antippen wird der Link zusätzlich kopiert, damit die App ihn nach der Installation öffnen kann.",
            "Weiter zu shop.example.com",
            "Laden im App Store",
            "Der Ersteller dieses Links ist nicht verifiziert.",
        ]
    );
    assert_eq!(
        words(Language::Ar, LINUX, &EVERYTHING),
        [
            "المتابعة إلى \u{2068}shop.example.com\u{2069}",
            "App Store لأجهزة iPhone وiPad",
            "Google Play لأجهزة Android",
            "لم يتم التحقق من مُنشئ هذا الرابط.",
            "رمز QR لهذا الرابط",
            "امسح الرمز ضوئيًا للمتابعة على هاتفك.",
        ]
    );
    let wechat = format!("{ANDROID} MicroMessenger/8");
    for (agent, link) in [(IPHONE, EVERYTHING), (&wechat, EVERYTHING), (LINUX, EVERYTHING), (LINUX, NOTHING)] {
        let english = words(Language::En, agent, &link);
        for language in Language::ALL.into_iter().filter(|&language| language != Language::En) {
            let its = words(language, agent, &link);
            assert_eq!(its.len(), english.len());
            for (text, english) in its.iter().zip(&english) {
                assert_ne!(text, english, "{language:?}");
            }
        }
    }
}

#[test]
fn an_ipad_is_addressed_in_its_language() {
    let page = dom(MAC, &EVERYTHING, Given { language: Language::Ja, ..TEXTS });
    assert_eq!(data(&page)["ios"]["label"], "Greenhouse for iOSで開く");
    let page = dom(MAC, &EVERYTHING, Given { language: Language::He, ..TEXTS });
    assert_eq!(data(&page)["ios"]["label"], "פתיחה ב-\u{2068}Greenhouse for iOS\u{2069}");
}

#[test]
fn a_page_is_small_in_every_language() {
    for language in Language::ALL {
        for agent in [IPHONE, ANDROID, MAC, LINUX] {
            let size = html(agent, &EVERYTHING, Given { language, ..TEXTS }).len();
            assert!(size < 20 * 1000, "{size} bytes in {language:?} for {agent}");
        }
    }
}

/// What programs read is the same in every language.
#[test]
fn machines_read_one_language() {
    let read = |language| {
        let page = dom(LINUX, &EVERYTHING, Given { language, ..TEXTS });
        (json_ld(&page), super::head::head_tags(&page))
    };
    let english = read(Language::En);
    for language in Language::ALL {
        assert_eq!(read(language), english, "{language:?}");
    }
}
