//! The pages under test: every kind of link, and texts of every kind that people write.

use serde_json::{Value, json};

use crate::browser::Browser;
use deeplink_testing::World;

/// A page under test.
pub(crate) struct Scene {
    pub(crate) name: &'static str,
    /// The link's body.
    link: Value,
    /// The tenant's app, if it has one.
    app: Option<Value>,
    /// A suffix for the device's User-Agent.
    pub(crate) agent_suffix: &'static str,
    /// The state of the link.
    fate: Fate,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Active,
    /// A row of `links` with this change.
    Row(&'static str),
    /// There is no such link.
    Missing,
    /// There is none, and too many missing ones were requested before.
    MissingAgain,
}

impl Scene {
    fn of(name: &'static str, link: Value) -> Self {
        Self { name, link, app: None, agent_suffix: "", fate: Fate::Active }
    }

    fn with_app(mut self, app: &Value) -> Self {
        self.app = Some(app.clone());
        self
    }

    fn in_browser_of(mut self, agent_suffix: &'static str) -> Self {
        self.agent_suffix = agent_suffix;
        self
    }

    fn with_fate(mut self, fate: Fate) -> Self {
        self.fate = fate;
        self
    }

    /// Creates the link, and the app for the page's branding, and returns the page's URL.
    pub(crate) async fn set_up(&self, browser: &Browser) -> String {
        let World { a, b, db, .. } = &browser.world;
        let owner = if self.app.is_some() { b } else { a };
        if let Some(app) = &self.app {
            let reply = owner.post("/v1/apps", app).await;
            assert_eq!(reply.status, 201, "{}", reply.text());
        }
        let id = match self.fate {
            Fate::Missing => "no-such-link".to_owned(),
            Fate::MissingAgain => {
                for guess in 0.. {
                    if browser.world.nobody.resolve(&format!("guess-{guess}")).await.status == 429 {
                        break;
                    }
                }
                "no-such-link".to_owned()
            }
            Fate::Active | Fate::Row(_) => owner.make_of(&self.link).await,
        };
        if let Fate::Row(change) = self.fate {
            db.execute(format!("UPDATE links SET {change} WHERE link_id = '{id}'")).await;
        }
        browser.service(&format!("/r/{id}"))
    }
}

/// All five destinations, and more.
fn everywhere(more: &Value) -> Value {
    let mut link = json!({
        "ios_deep_link": "shop://promo/1",
        "ios_store_url": "https://apps.apple.com/app/id123456789",
        "android_deep_link": "shop://promo/1",
        "android_store_url": "https://play.google.com/store/apps/details?id=com.example.app",
        "web_url": "https://shop.example.com/promo",
    });
    let members = more.as_object().expect("an object").clone();
    link.as_object_mut().expect("an object").extend(members);
    link
}

fn app(name: &str, colour: &str) -> Value {
    json!({
        "platform": "ios", "bundle_id": "com.example.app", "team_id": "ABCDE12345", "app_name": name,
        "icon_url": "https://images.example.com/icon.svg", "theme_color": colour,
    })
}

/// A sentence of exactly this many characters.
pub(crate) fn sentence(words: &str, characters: usize) -> String {
    words.chars().cycle().take(characters - 1).chain(['.']).collect()
}

/// Every text that a creator can set, each at its maximum length.
pub(crate) fn longest(words: &str) -> Value {
    json!({
        "social_preview": {
            "title": sentence(words, 120), "description": sentence(words, 300),
            "image_url": "https://images.example.com/cover.svg",
        },
        "agent_context": { "action": "book", "cta": sentence(words, 120), "description": sentence(words, 500) },
    })
}

/// Every page. The last one must stay last: after it no missing link is answered.
pub(crate) fn all() -> Vec<Scene> {
    let image = |name: &str| format!("https://images.example.com/{name}");
    let sale = json!({
        "social_preview": {
            "title": "Spring sale at the greenhouse", "description": "Seeds, tools and pots, up to half off until Sunday.",
            "image_url": image("cover.svg"),
        },
        "agent_context": {
            "action": "purchase", "cta": "Claim the discount",
            "description": "Valid once per customer, in all shops and online.",
        },
    });
    let pictured =
        |name: &str| json!({ "social_preview": { "title": "A walk in the hills", "image_url": image(name) } });
    let arabic = json!({
        "social_preview": {
            "title": "تخفيضات الربيع في المشتل", "description": "بذور وأدوات وأصص بخصم يصل إلى النصف حتى يوم الأحد.",
            "image_url": image("cover.svg"),
        },
        "agent_context": { "cta": "احصل على الخصم", "description": "مرة واحدة لكل عميل، في كل المتاجر." },
    });
    let emoji = json!({
        "social_preview": { "title": "🎉🌻 Party 👩‍👩‍👧‍👦 in the 春の庭 garden 🪴", "description": "🌱🌱🌱 春のセール、日曜日まで。 Привет! 🇨🇭" },
        "agent_context": { "cta": "👉 Join 🎈", "description": "🌧️ or ☀️" },
    });
    let hostile = json!({
        "social_preview": { "title": "</title></script><script>alert(1)</script>", "description": "\"><img src=x onerror=alert(1)>", "image_url": "https://images.example.com/\"onload=alert(1)//" },
        "agent_context": { "cta": "</style><svg onload=alert(1)>", "description": "<a id=open href=https://evil.example/>" },
    });
    let green = app("Greenhouse", "#2E7D4F");
    vec![
        Scene::of("full", everywhere(&sale)),
        Scene::of("full-app", everywhere(&sale)).with_app(&green),
        Scene::of("app", everywhere(&json!({}))).with_app(&green),
        Scene::of("bare", everywhere(&json!({}))),
        Scene::of("yellow", everywhere(&sale)).with_app(&app("Sunflower", "#ffdd00")),
        Scene::of("white", everywhere(&json!({}))).with_app(&app("Snow", "#fff")),
        Scene::of("black", everywhere(&json!({}))).with_app(&app("Night", "#000000")),
        Scene::of("longest", everywhere(&longest("The quick brown fox jumps over the lazy dog, and ")))
            .with_app(&app(&sentence("Greenhouse and more ", 100), "#2E7D4F")),
        Scene::of("endless-words", everywhere(&longest("Donaudampfschifffahrtsgesellschaft"))),
        Scene::of("arabic", everywhere(&arabic)).with_app(&app("المشتل", "#7a3ff2")),
        Scene::of("emoji", everywhere(&emoji)),
        Scene::of("hostile", everywhere(&hostile)),
        Scene::of("tall-image", everywhere(&pictured("tall.svg"))),
        Scene::of("image-gone", everywhere(&pictured("gone.png"))).with_app(&json!({
            "platform": "ios", "bundle_id": "com.example.app", "team_id": "ABCDE12345", "app_name": "Hills",
            "icon_url": image("gone.png"),
        })),
        Scene::of("nothing", json!({})),
        Scene::of(
            "apps-only",
            json!({"ios_deep_link": "shop://promo/1", "android_deep_link": "shop://promo/1", "social_preview": {"title": "Only in the app"}}),
        ),
        Scene::of("other-phone", json!({"ios_store_url": "https://apps.apple.com/app/id123456789"})),
        Scene::of("in-app", everywhere(&sale)).with_app(&green).in_browser_of(" Instagram 350.0"),
        Scene::of("wechat", everywhere(&sale)).with_app(&green).in_browser_of(" MicroMessenger/8.0.49"),
        Scene::of("expired", everywhere(&sale)).with_fate(Fate::Row("expires_at = 1")),
        Scene::of("disabled", everywhere(&sale)).with_fate(Fate::Row("status = 'disabled'")),
        Scene::of("flagged", everywhere(&sale)).with_fate(Fate::Row("status = 'flagged'")),
        Scene::of("not-found", json!({})).with_fate(Fate::Missing),
        Scene::of("too-many", json!({})).with_fate(Fate::MissingAgain),
    ]
}
