//! The files in `packaging/` that read the service's metrics: the Grafana board and the alert rules.

use std::collections::BTreeSet;

use deeplink_testing::{spawn_with, wire};

const BOARD: &str = include_str!("../../packaging/grafana/dashboard.json");
const ALERTS: &str = include_str!("../../packaging/prometheus/alerts.yaml");

/// The names in a file that look like metrics, without the suffixes of a histogram.
fn mentioned(file: &str) -> BTreeSet<&str> {
    file.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| word.starts_with("deeplink_") || word.starts_with("process_"))
        .map(|word| ["_bucket", "_sum", "_count"].into_iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word))
        .collect()
}

#[tokio::test]
async fn the_board_and_the_alerts_name_metrics_that_the_service_exports() {
    let world = spawn_with(|config| config.admin_listen = Some(([127, 0, 0, 1], 0).into())).await;
    let address = world.node(0).admin_address.expect("an admin address");
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let page = wire::send(address, request.as_bytes()).await;
    let exported: BTreeSet<_> =
        page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_whitespace().next()).collect();
    assert!(exported.len() > 20, "{page}");
    for (name, file) in [("dashboard.json", BOARD), ("alerts.yaml", ALERTS)] {
        let mentioned = mentioned(file);
        assert!(mentioned.len() > 5, "{name}: {mentioned:?}");
        let unknown: Vec<_> = mentioned.difference(&exported).collect();
        assert!(unknown.is_empty(), "{name} names metrics that do not exist: {unknown:?}");
    }
}

/// The rules have labels of their own for visits, and a renamed route would silence them.
#[test]
fn visits_are_counted_under_the_route_that_the_board_and_the_alerts_name() {
    let route = format!("route=\"{}\"", deeplink_core::routes::RESOLVE.path);
    assert!(ALERTS.contains(&route), "{route}");
    assert!(BOARD.contains(&route.replace('"', "\\\"")), "{route}");
}
