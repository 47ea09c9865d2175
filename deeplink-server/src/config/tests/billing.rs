//! Stripe: its secrets and prices, complete or not at all.

use deeplink_core::plan::Tier;

use super::*;

const STRIPE_FLAGS: [&str; 3] =
    ["--stripe-price-pro=price_1", "--stripe-price-business=price_2", "--stripe-price-scale=price_3"];
const STRIPE_SECRETS: [(&str, &str); 2] =
    [("DEEPLINK_STRIPE_SECRET_KEY", "rk_test_hunter2"), ("DEEPLINK_STRIPE_WEBHOOK_SECRET", "whsec_hunter2, whsec_old")];

#[test]
fn stripe_is_configured_by_its_secrets_and_prices() {
    let config = read(&STRIPE_FLAGS, &STRIPE_SECRETS).expect("Stripe");
    assert!(config.enforce_quotas && config.billing && !format!("{config:?}").contains("hunter2"));
    let stripe = config.stripe.expect("Stripe");
    assert_eq!((stripe.base.as_str(), stripe.webhook_secrets.len()), ("https://api.stripe.com/", 2));
    assert_eq!(stripe.call_interval * 25, Duration::from_secs(1));
    let tiers = ["price_1", "price_2", "price_3", "price_4"].map(|price| stripe.prices.tier(price));
    assert_eq!(tiers.map(|tier| tier.map_or(String::new(), |tier| tier.to_string())), ["pro", "business", "scale", ""]);
    let local: Vec<_> =
        STRIPE_FLAGS.into_iter().chain(["--stripe-api-base=http://127.0.0.1:9000", "--quotas=off"]).collect();
    let config = read(&local, &STRIPE_SECRETS).expect("Stripe on this machine");
    assert!(!config.enforce_quotas, "what is set explicitly wins");
    assert_eq!(config.stripe.expect("Stripe").base.as_str(), "http://127.0.0.1:9000/");
    let off: Vec<_> = STRIPE_FLAGS.into_iter().chain(["--billing=off"]).collect();
    let config = read(&off, &STRIPE_SECRETS).expect("settings");
    assert!(config.stripe.is_none() && !config.enforce_quotas && !config.billing);
    assert!(read(&["--quotas=enforce"], &[]).expect("settings").enforce_quotas);
}

/// An incomplete configuration stops the start, and the error names what is missing.
#[test]
fn bl5_half_a_configuration_of_stripe_names_what_is_missing() {
    for at in 0..STRIPE_FLAGS.len() + STRIPE_SECRETS.len() {
        let flags: Vec<_> =
            STRIPE_FLAGS.into_iter().enumerate().filter(|(n, _)| *n != at).map(|(_, flag)| flag).collect();
        let secrets: Vec<_> = STRIPE_SECRETS
            .into_iter()
            .enumerate()
            .filter(|(n, _)| n + STRIPE_FLAGS.len() != at)
            .map(|(_, s)| s)
            .collect();
        let missing = [
            "DEEPLINK_STRIPE_PRICE_PRO",
            "DEEPLINK_STRIPE_PRICE_BUSINESS",
            "DEEPLINK_STRIPE_PRICE_SCALE",
            "DEEPLINK_STRIPE_SECRET_KEY",
            "DEEPLINK_STRIPE_WEBHOOK_SECRET",
        ][at];
        assert_eq!(read(&flags, &secrets).expect_err(missing).variable, missing);
    }
    let error = read(&["--stripe-api-base=http://127.0.0.1:9000"], &[]).expect_err("a base alone");
    assert!(
        error.variable.starts_with("DEEPLINK_STRIPE_PRICE") && error.to_string().contains("_API_BASE is"),
        "{error}"
    );
}

/// A plan is sold at the first of its prices, and all of them grant it. A price belongs to one plan.
#[test]
fn a_plan_has_several_prices() {
    let with = |pro: &str, scale: &str| {
        let (pro, scale) = (format!("--stripe-price-pro={pro}"), format!("--stripe-price-scale={scale}"));
        read(&[&pro, "--stripe-price-business=price_2", &scale], &STRIPE_SECRETS)
    };
    let config = with("price_new, price_1,,price_0", "price_3").expect("several prices");
    let prices = config.stripe.expect("Stripe").prices;
    assert_eq!((prices.of(&Tier::Pro), prices.of(&Tier::Scale)), (Some("price_new"), Some("price_3")));
    for price in ["price_new", "price_1", "price_0"] {
        assert_eq!(prices.tier(price), Some(Tier::Pro), "{price}");
    }
    assert_eq!((prices.tier("price_3"), prices.tier("price_9"), prices.tier("")), (Some(Tier::Scale), None, None));
    for (pro, scale) in [("price_1", "price_1"), ("price_1,price_0", "price_3,price_0")] {
        let error = with(pro, scale).expect_err("two plans of one price");
        assert_eq!(error.variable, "DEEPLINK_STRIPE_PRICE_SCALE");
        assert!(error.to_string().contains("is also in DEEPLINK_STRIPE_PRICE_PRO,"), "{error}");
    }
}

/// Other ids from Stripe's pages are not taken for a price, and a pasted secret is not repeated.
#[test]
fn products_and_secrets_are_no_prices() {
    for (value, says) in [
        ("prod_hunter2", "\"prod_hunter2\" is the ID of a product"),
        ("price_1, sk_live_hunter2", "a Stripe key or secret"),
        ("rk_live_hunter2", "a Stripe key or secret"),
        ("pk_live_hunter2", "a Stripe key or secret"),
        ("whsec_hunter2+/=", "a Stripe key or secret"),
        ("price 1", "is not the ID of a price"),
        (" , ", "contains no price"),
    ] {
        let error = read(&[&format!("--stripe-price-business={value}")], &STRIPE_SECRETS).expect_err(value);
        assert_eq!(error.variable, "DEEPLINK_STRIPE_PRICE_BUSINESS", "{value}");
        let text = error.to_string();
        assert!(text.contains(says) && (value.starts_with("prod_") || !text.contains("hunter2")), "{text}");
    }
}
