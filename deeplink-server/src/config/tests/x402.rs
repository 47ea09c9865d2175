//! Payments for requests.

use super::*;

#[test]
fn payments_are_configured_whole_or_not_at_all() {
    const PAY_TO: &str = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
    let whole = [
        ("--x402-facilitator-url", "https://facilitator.example.com/x"),
        ("--x402-pay-to", PAY_TO),
        ("--x402-network", "base"),
        ("--x402-price", "10000"),
    ];
    let flags = |left_out: &str| -> Vec<&str> {
        whole.iter().filter(|(name, _)| *name != left_out).flat_map(|(name, value)| [*name, *value]).collect()
    };
    assert!(read(&[], &[]).expect("the defaults").x402.is_none());
    let x402 = read(&flags(""), &[]).expect("a configuration").x402.expect("payments");
    assert_eq!((x402.network.as_str(), x402.pay_to.as_str()), ("eip155:8453", PAY_TO));
    assert_eq!(x402.asset, "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913");
    assert_eq!(x402.extra, Some(serde_json::json!({"name": "USD Coin", "version": "2"})));
    assert!(x402.prices.len() == 27 && x402.prices.values().all(|price| price == "10000"));
    for (left_out, missing) in [
        ("--x402-facilitator-url", "DEEPLINK_X402_FACILITATOR_URL"),
        ("--x402-pay-to", "DEEPLINK_X402_PAY_TO"),
        ("--x402-network", "DEEPLINK_X402_NETWORK"),
        ("--x402-price", "DEEPLINK_X402_PRICE"),
    ] {
        let error = read(&flags(left_out), &[]).expect_err("half a configuration").to_string();
        assert!(error.contains(missing), "{left_out}: {error}");
    }
    let own = [("DEEPLINK_X402_PRICE_LINKS_CREATE", "25000"), ("DEEPLINK_X402_PRICE_LINKS_LIST", "0")];
    let prices = read(&flags(""), &own).expect("a configuration").x402.expect("payments").prices;
    assert_eq!((prices["create_link"].as_str(), prices.get("list_links")), ("25000", None));
    assert_eq!(prices["bulk_create_links"], "10000");
    let only = read(&flags("--x402-price"), &own).expect("a configuration").x402.expect("payments").prices;
    assert_eq!(only.len(), 1);
    for (flag, value, variable) in [
        ("--x402-facilitator-url", "http://facilitator.example.com", "DEEPLINK_X402_FACILITATOR_URL"),
        ("--x402-pay-to", "0x12", "DEEPLINK_X402_PAY_TO"),
        ("--x402-network", "polygon", "DEEPLINK_X402_NETWORK"),
        ("--x402-network", "eip155:137", "DEEPLINK_X402_ASSET"),
        ("--x402-price", "0.01", "DEEPLINK_X402_PRICE"),
        ("--x402-asset", "0x12", "DEEPLINK_X402_ASSET"),
    ] {
        let mut line = flags(flag);
        line.extend([flag, value]);
        let error = read(&line, &[]).expect_err("a bad value").to_string();
        assert!(error.contains(variable), "{flag} {value}: {error}");
    }
    let mut line = flags("--x402-network");
    let asset = format!("{PAY_TO}/EURC/1");
    line.extend(["--x402-network", "eip155:137", "--x402-asset", &asset]);
    let x402 = read(&line, &[]).expect("a configuration").x402.expect("payments");
    assert_eq!((x402.asset.as_str(), x402.extra), (PAY_TO, Some(serde_json::json!({"name": "EURC", "version": "1"}))));
    let with_token = [("DEEPLINK_X402_FACILITATOR_TOKEN", "hunter2")];
    let config = read(&flags(""), &with_token).expect("a configuration");
    assert!(
        config.x402.as_ref().is_some_and(|x402| x402.token.is_some()) && !format!("{config:?}").contains("hunter2")
    );
    let refused = read(&[], &with_token).expect_err("a token without a facilitator");
    assert_eq!(refused.variable, "DEEPLINK_X402_FACILITATOR_TOKEN");
    let refused = read(&flags(""), &[("DEEPLINK_X402_FACILITATOR_TOKEN", "hunter2 x")]).expect_err("no token");
    assert!(refused.variable == "DEEPLINK_X402_FACILITATOR_TOKEN" && !refused.problem.contains("hunter2"));
    let unknown = environment(&[("DEEPLINK_X402_PRICE_LINKS_CREAT", "1")]).unknown();
    assert!(unknown.len() == 1 && unknown[0].contains("DEEPLINK_X402_PRICE_LINKS_CREATE"), "{unknown:?}");
    assert!(environment(&own).unknown().is_empty());
}
