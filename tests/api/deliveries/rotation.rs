//! The master key is replaced while nodes run: no source's URL and no webhook's secret is lost on the way, and one that is
//! damaged fails alone.

use std::collections::BTreeSet;
use std::time::Duration;

use deeplink_core::secret::Random;
use deeplink_server::config::{Config, MasterKey};
use serde_json::json;

use super::signing::is_signed_with;
use super::{HOST, Hook, PATIENCE, Scene};
use deeplink_doubles::receiver::{Receiver, Say};
use deeplink_testing::{Caller, eventually};

const SOURCES: &str = "/v1/sources";
/// Every sealed value relevant here, with its row.
const SEALED: &str = "SELECT id || ' ' || sealed FROM sources UNION ALL SELECT id || ' ' || sealed FROM webhooks";

/// A source with its URL.
#[derive(Debug)]
struct Source {
    id: String,
    url: String,
}

async fn source(of: &Caller, name: &str) -> Source {
    let made = of.post(SOURCES, &json!({"name": name, "source_type": "custom"})).await;
    assert_eq!(made.status, 201, "{}", made.text());
    Source { id: made.member("id"), url: made.member("webhook_url") }
}

/// The ids of the keys that sources and webhooks are sealed with.
async fn key_ids(scene: &Scene) -> Vec<String> {
    let rows = scene.world.db.texts(SEALED).await;
    let key = |row: &String| row.split(['.', ' ']).nth(1).expect("a key").to_owned();
    rows.iter().map(key).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Puts the values of a source and a webhook back to how they were sealed earlier.
async fn put_back(scene: &Scene, earlier: &[String], ids: [&str; 2]) {
    for row in earlier {
        let (id, sealed) = row.split_once(' ').expect("a row and a value");
        if ids.contains(&id) {
            let table = if id.starts_with("src_") { "sources" } else { "webhooks" };
            scene.world.db.execute(format!("UPDATE {table} SET sealed = '{sealed}' WHERE id = '{id}'")).await;
        }
    }
}

/// Every source shows its URL, and what is delivered to every webhook is signed with its secret.
async fn assert_whole(scene: &Scene, node: usize, sources: &[Source], hooks: &[Hook], receiver: &Receiver) {
    let a = scene.world.at(node, &scene.world.a);
    for source in sources {
        assert_eq!(a.get(&format!("{SOURCES}/{}", source.id)).await.member("webhook_url"), source.url);
    }
    for hook in hooks {
        let heard = receiver.heard().len();
        let delivered = scene.count(hook, 1).await;
        scene.test(&a, hook).await;
        scene.settled(hook, 1, delivered + 1).await;
        let posts = receiver.heard();
        assert!(posts[heard..].iter().any(|post| is_signed_with(post, &hook.secret) == (true, true)), "{hook:?}");
    }
}

/// A rotation of the master key loses nothing, though one node encrypts with the new key while another only has the old
/// one: values that cannot be read there are shown as such, no node starts without a key that a value needs, and in the
/// end every URL can be read and every delivery is signed. On SQLite one process follows another, and the other node's
/// writes are simulated by restoring the values that the old key sealed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r10_x18_a_rotation_on_two_nodes_loses_nothing() {
    let mut scene = Scene::with(2, |_| {}).await;
    let receiver = scene.receiver(Say::Status(204)).await;
    let url = receiver.url(HOST, "/in");
    let (a, apart) = (scene.world.a.clone(), scene.world.db.is_postgres());
    let (mut sources, mut hooks) = (vec![source(&a, "first").await], vec![scene.hook(&a, &url).await]);
    let old_id = key_ids(&scene).await.remove(0);
    let new = MasterKey::generate(&mut Random::seeded(12));
    let both = |config: &mut Config| config.master_keys.insert(0, new.clone());
    let alone = |config: &mut Config| config.master_keys = vec![new.clone()];

    // Node 0 encrypts with the new key while node 1 has the old one only.
    if apart {
        scene.world.stop_node(0).await;
        scene.world.start_node(0, both).await.expect("both keys");
    }
    let there = scene.world.at(1, &a);
    if apart {
        let listed = there.get(SOURCES).await;
        assert_eq!((listed.status, &listed.json()["sources"][0]["webhook_url"]), (200, &json!(null)));
    }
    sources.push(source(&there, "second").await);
    if !apart {
        hooks.push(scene.hook(&there, &url).await);
    }
    let earlier = scene.world.db.texts(SEALED).await;
    scene.world.stop_node(0).await;
    if apart {
        // What was made before may have been resealed by node 0 meanwhile.
        hooks.push(scene.hook(&there, &url).await);
        sources.push(source(&there, "while node 0 was away").await);
    } else {
        scene.world.start_node(0, both).await.expect("both keys");
        scene.world.stop_node(0).await;
        put_back(&scene, &earlier, [&sources[1].id, &hooks[1].id]).await;
    }
    assert_eq!(key_ids(&scene).await.len(), 2, "some values need the old key");

    let why = scene.world.start_node(0, alone).await.expect_err("values need the old key");
    for part in [&format!("key {old_id} for "), "1 webhook secret", "source URL", "DEEPLINK_MASTER_KEY"] {
        assert!(why.contains(part), "{part}: {why}");
    }
    scene.world.start_node(0, both).await.expect("both keys");
    if apart {
        scene.world.stop_node(1).await;
        scene.world.start_node(1, both).await.expect("both keys");
    }
    let left = key_ids(&scene).await;
    assert!(left.len() == 1 && left[0] != old_id, "all of them are resealed: {left:?}");
    for node in 0..2 {
        assert_whole(&scene, node, &sources, &hooks, &receiver).await;
    }
    for node in 0..if apart { 2 } else { 1 } {
        scene.world.stop_node(node).await;
        scene.world.start_node(node, alone).await.expect("nothing needs the old key");
    }
    for node in 0..2 {
        assert_whole(&scene, node, &sources, &hooks, &receiver).await;
    }
}

/// What another node writes with an older key after this one has started is resealed in the background.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r10_what_an_older_key_seals_later_is_sealed_anew() {
    let mut scene = Scene::new().await;
    let receiver = scene.receiver(Say::Status(204)).await;
    let a = scene.world.a.clone();
    let (one, hook) = (source(&a, "one").await, scene.hook(&a, &receiver.url(HOST, "/in")).await);
    let (old_id, earlier) = (key_ids(&scene).await, scene.world.db.texts(SEALED).await);
    let new = MasterKey::generate(&mut Random::seeded(13));
    scene.world.restart(|config| config.master_keys.insert(0, new.clone())).await;
    let new_id = key_ids(&scene).await;
    assert_ne!(new_id, old_id);
    put_back(&scene, &earlier, [&one.id, &hook.id]).await;
    eventually("all is resealed", PATIENCE, || async {
        scene.world.clock.advance(Duration::from_mins(1));
        key_ids(&scene).await == new_id
    })
    .await;
    scene.world.restart(|config| config.master_keys = vec![new.clone()]).await;
    assert_whole(&scene, 0, &[one], &[hook], &receiver).await;
}

/// Attempts of a webhook whose secret cannot be decrypted fail with that reason; those of others are made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r10_a_webhook_without_its_secret_fails_alone() {
    let scene = Scene::new().await;
    let receiver = scene.receiver(Say::Status(204)).await;
    let a = &scene.world.a;
    let broken = scene.hook(a, &receiver.url(HOST, "/broken")).await;
    let whole = scene.hook(a, &receiver.url(HOST, "/whole")).await;
    let damage = "UPDATE webhooks SET sealed = substr(sealed, 1, length(sealed) - 4) || 'AAAA'";
    scene.world.db.execute(format!("{damage} WHERE id = '{}'", broken.id)).await;
    scene.test(a, &broken).await;
    scene.attempted(&broken, 1).await;
    let shown = scene.deliveries(a, &broken).await;
    let error = serde_json::to_value(&shown[0]).expect("JSON")["attempts"][0]["error"].clone();
    assert_eq!(error, "the webhook's secret cannot be decrypted");
    let secret = whole.secret.clone();
    assert_whole(&scene, 0, &[], &[whole], &receiver).await;
    assert!(receiver.heard().iter().all(|post| is_signed_with(post, &secret).0), "nothing is sent without a signature");
    assert_eq!(a.get("/v1/webhooks").await.status, 200);
}
