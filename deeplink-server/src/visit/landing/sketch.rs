//! What a link will show, for the form in which its owner writes it: the card of a messaging app, and the landing page.
//! The form's script shows the same while its owner types.

use deeplink_core::resolve::Target;
use deeplink_core::visitor::{Language, Platform};
use url::Url;

use super::theme::Theme;
use super::{BUTTON_COLUMNS, initial, label, non_blank};
use crate::db::hosts::TenantBranding;
use crate::visit::shown::shown_apps;
use crate::visit::texts::{Label, Texts, columns};

/// The texts of both. Those that the link does not have are empty.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Sketch {
    /// The host of the link's address.
    pub(crate) site: String,
    /// The title of links without one, whatever their destination.
    pub(crate) own_title: String,
    pub(crate) title: String,
    /// The card's description, and the landing page's.
    pub(crate) description: String,
    pub(crate) lead: String,
    /// The host of the image.
    pub(crate) picture: String,
    /// The first letter of the app's name, else of the domain's.
    pub(crate) initial: String,
    /// The main button, and its second line.
    pub(crate) button: String,
    pub(crate) small: String,
    /// The call to action if it is too long for the button.
    pub(crate) cta: String,
    pub(crate) context: String,
    /// The button's labels, of which the last has `*` for the host of the destination.
    pub(crate) labels: [String; 4],
    /// CSS with the colors of the button: nothing in it is anyone's text.
    pub(crate) css: String,
}

impl Sketch {
    /// Of a link on this host, whose fields have these values: their names are those of the API.
    pub(crate) fn of<'a>(branding: &TenantBranding, site: &str, value: impl Fn(&str) -> &'a str) -> Self {
        let texts = Texts::of(Language::En);
        let app = shown_apps(branding, Platform::Other).display;
        let theme = Theme::of(app.theme_color);
        let text = |name: &str| value(name).trim().to_owned();
        let web_host = host(value("web_url"));
        let domain = branding.domain.as_deref();
        let own_title = non_blank(app.name).or(domain.map(|_| site)).unwrap_or_default();
        let title =
            [value("social_preview.title"), own_title, &web_host].into_iter().find_map(|text| non_blank(Some(text)));
        let has = |name: &str| !value(name).is_empty();
        let opens_app = has("ios_deep_link") || has("android_deep_link");
        let others = [
            (has("ios_store_url"), Target::AppStore),
            (has("android_store_url"), Target::PlayStore),
            (!web_host.is_empty(), Target::Web),
        ];
        let other = others.into_iter().find(|(has, _)| *has && !opens_app);
        let target = other.map_or(Target::IosApp, |(_, target)| target);
        let label_of = |target, web_host| label(texts, target, app.name, web_host).to_string();
        let where_to = label_of(target, &web_host);
        let cta = Some(text("agent_context.cta")).filter(|cta| *cta != where_to).unwrap_or_default();
        let is_short = !cta.is_empty() && columns(&cta) <= BUTTON_COLUMNS;
        let (button, small, cta) =
            if is_short { (cta, where_to, String::new()) } else { (where_to, String::new(), cta) };
        let (lead, context) = (text("social_preview.description"), text("agent_context.description"));
        let targets = [Target::IosApp, Target::AppStore, Target::PlayStore];
        let [open, app_store, play_store] = targets.map(|target| label_of(target, ""));
        Self {
            site: site.to_owned(),
            own_title: own_title.to_owned(),
            title: title.unwrap_or(site).trim().to_owned(),
            description: if lead.is_empty() { context.clone() } else { lead.clone() },
            lead,
            picture: host(value("social_preview.image_url")),
            initial: initial(app.name, domain),
            button,
            small,
            cta,
            context,
            labels: [open, app_store, play_store, Label::With(texts.continue_to, "*").to_string()],
            css: format!(".landing{{--brand:{};--on-brand:{}}}", theme.brand, theme.on_brand),
        }
    }
}

/// The host of a URL; empty if it is none.
fn host(url: &str) -> String {
    Url::parse(url).ok().and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::hosts::AppBranding;

    fn sketch(branding: &TenantBranding, fields: &[(&str, &'static str)]) -> Sketch {
        let value = |name: &str| fields.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| *value);
        Sketch::of(branding, "go.example.com", value)
    }

    #[test]
    fn a_link_is_named_like_its_landing_page() {
        let none = TenantBranding::default();
        let domain = TenantBranding { domain: Some("go.example.com".to_owned()), ..TenantBranding::default() };
        let app = AppBranding {
            name: Some("Greenhouse".to_owned()),
            theme_color: Some("#ff0".to_owned()),
            ..AppBranding::default()
        };
        let app = TenantBranding { android: Some(app), ..domain.clone() };
        let web = ("web_url", "https://shop.example.com:8443/sale");
        for (branding, fields, title, initial) in [
            (&none, &[][..], "go.example.com", ""),
            (&none, &[web], "shop.example.com", ""),
            (&none, &[("web_url", "shop")], "go.example.com", ""),
            (&domain, &[web], "go.example.com", "E"),
            (&app, &[web], "Greenhouse", "G"),
            (&app, &[web, ("social_preview.title", " Sale ")], "Sale", "G"),
        ] {
            let sketch = sketch(branding, fields);
            assert_eq!((&*sketch.title, &*sketch.initial), (title, initial), "{fields:?}");
        }
        assert_eq!(sketch(&app, &[]).css, ".landing{--brand:#ffff00;--on-brand:#000000}");
        assert_eq!(
            sketch(&none, &[("social_preview.image_url", "https://images.example.com/a.png")]).picture,
            "images.example.com"
        );
    }

    #[test]
    fn the_button_says_where_it_leads() {
        let cta = ("agent_context.cta", "Get 20% off");
        let long = ("agent_context.cta", "Get 20% off everything in the greenhouse until Sunday");
        for (fields, button, small, below) in [
            (&[][..], "Open in the app", "", ""),
            (&[("web_url", "https://shop.example.com/")], "Continue to shop.example.com", "", ""),
            (&[("android_store_url", "x"), cta], "Get 20% off", "Get it on Google Play", ""),
            (&[("ios_store_url", "x"), ("android_store_url", "x")], "Download on the App Store", "", ""),
            (&[("android_deep_link", "x"), long], "Open in the app", "", long.1),
            (&[("ios_deep_link", "x"), ("agent_context.cta", "Open in the app")], "Open in the app", "", ""),
        ] {
            let sketch = sketch(&TenantBranding::default(), fields);
            assert_eq!((&*sketch.button, &*sketch.small, &*sketch.cta), (button, small, below), "{fields:?}");
        }
        let texts = [("social_preview.description", "Seeds."), ("agent_context.description", "Once per customer.")];
        let both = sketch(&TenantBranding::default(), &texts);
        assert_eq!((&*both.description, &*both.lead, &*both.context), ("Seeds.", "Seeds.", "Once per customer."));
        let one = sketch(&TenantBranding::default(), &texts[1..]);
        assert_eq!((&*one.description, &*one.lead), ("Once per customer.", ""));
        assert_eq!(both.labels[3], "Continue to *");
    }
}
