//! The list of links follows its search: what is kept, what is said, and which response is shown.

use serde_json::{Value, json};

use crate::account::enter;
use crate::axe;
use crate::browser::{Browser, browse};
use crate::device::WINDOWS;
use deeplink_testing::{World, spawn};

/// The IDs in the list, with the selected ones in parentheses.
const LISTED: &str =
    "[...document.querySelectorAll('tr.link [name=link]')].map((e) => e.checked ? `(${e.value})` : e.value).join(' ')";

/// The action that is chosen for the selected links, and the tags.
const ACTION: &str = "['action', 'tags'].map((id) => document.getElementById(id).value)";

/// Holds the page's requests back in `asked`, where `answer()` lets one through, even one that the page has aborted. It ends
/// when the page has done with the response what it does.
const HOLD: &str = "((ask) => {
  window.asked = [];
  window.fetch = (url, { signal }) => new Promise((resolve) => {
    const answer = async () => {
      const reply = await ask(url), text = await reply.text();
      resolve({ ok: reply.ok, text: async () => text });
      await new Promise((done) => setTimeout(done));
      return null;
    };
    asked.push({ url, signal, answer });
  });
})(window.fetch) ?? null";

/// Keeps in `parsed` what begins each text that is parsed.
const PARSED: &str = "((parse) => {
  window.parsed = [];
  DOMParser.prototype.parseFromString = function (text, type) {
    parsed.push(text.slice(0, 9));
    return parse.call(this, text, type);
  };
})(DOMParser.prototype.parseFromString) ?? null";

/// A world whose account A has three links.
async fn world_with_links() -> World {
    let world = spawn().await;
    for id in ["spring-sale", "welcome", "menu"] {
        let url = format!("https://shop.example.com/{id}");
        world.a.make_of(&json!({"custom_id": id, "web_url": url, "tags": ["printed"]})).await;
    }
    world
}

/// Opens the list in a window that is marked.
async fn open(browser: &Browser, query: &str) {
    browser.open(&browser.service(&format!("/account/links{query}"))).await;
    let () = browser.eval("(window.kept = true, null)").await;
}

/// Enters a text at once; keys could be so slow that the list follows each.
async fn search(browser: &Browser, text: &str) {
    let entry = json!([text]);
    let typing = format!(
        "((q, [text]) => {{
          q.value = text;
          q.dispatchEvent(new Event('input', {{ bubbles: true }}));
        }})(document.getElementById('q'), {entry}) ?? null"
    );
    let () = browser.eval(&typing).await;
}

/// Waits for this list at this address, in the window that was opened.
async fn until_listed(browser: &Browser, query: &str, ids: &str) {
    browser.until(&format!("location.search === '{query}' && ({LISTED}) === '{ids}' && window.kept === true")).await;
}

async fn answer(browser: &Browser, number: usize) {
    let () = browser.eval(&format!("asked[{number}].answer()")).await;
}

async fn choose(browser: &Browser, id: &str, value: &str) {
    let choosing = format!(
        "((e) => {{
          e.value = '{value}';
          for (const kind of ['input', 'change']) e.dispatchEvent(new Event(kind, {{ bubbles: true }}));
        }})(document.getElementById('{id}')) ?? null"
    );
    let () = browser.eval(&choosing).await;
}

#[tokio::test]
async fn the_list_follows_and_keeps_what_was_selected_and_typed() {
    let world = world_with_links().await;
    browse(world, async |browser| {
        enter(browser, &browser.world.a).await;
        browser.be(WINDOWS, "light").await;
        open(browser, "").await;
        browser.click("[value=welcome]").await;
        browser.click("[value=menu]").await;
        choose(browser, "action", "add_tags").await;
        browser.fill("tags", "poster").await;
        browser.fill("q", "welc").await;
        until_listed(browser, "?q=welc", "(welcome)").await;
        browser.until_it_says("#count", "1 selected, 1 deselected").await;
        assert!(
            browser.eval::<bool>("document.activeElement.id === 'q' && document.activeElement.value === 'welc'").await
        );
        assert_eq!(browser.eval::<(String, String)>(ACTION).await, ("add_tags".into(), "poster".into()));
        let leads = "['.many[action]', '[href*=csv]', '.search a'].map((part) => document.querySelector(part))
          .map((e) => e.getAttribute('href') ?? e.getAttribute('action'))";
        assert_eq!(
            browser.eval::<Vec<String>>(leads).await,
            ["/account/selected-links?q=welc", "/account/links.csv?q=welc", "/account/links"]
        );
        assert_eq!(axe::violations(browser).await, [""; 0]);
        browser.click(".pick button").await;
        browser.until_it_says(".notice", "Tags added to 1 link.").await;
        assert_eq!(browser.path().await, "/account/links?q=welc&done=links-tagged&n=1");
        let poster = browser.world.a.get("/v1/links?tag=poster").await.json();
        let tagged: Vec<_> = poster["links"].as_array().expect("a list").iter().map(|link| &link["link_id"]).collect();
        assert_eq!(tagged, ["welcome"]);

        // An empty list has no actions; they come back as they were, without a selection.
        open(browser, "").await;
        browser.click("[value=welcome]").await;
        choose(browser, "action", "remove_tags").await;
        browser.fill("tags", "printed, old").await;
        search(browser, "nothing of this name").await;
        browser.until_it_says("main .empty", "No links contain “nothing of this name”.").await;
        assert_eq!(browser.path().await, "/account/links?q=nothing+of+this+name");
        search(browser, "").await;
        until_listed(browser, "", "menu welcome spring-sale").await;
        browser.until_it_says("#count", "1 deselected").await;
        browser.click("[value=menu]").await;
        browser.until_it_says("#count", "1 selected").await;
        assert_eq!(browser.eval::<(String, String)>(ACTION).await, ("remove_tags".into(), "printed, old".into()));
        assert!(browser.eval::<bool>("document.querySelector('.search a') === null").await);

        // Filters and the order are followed too, and the button stays on the page.
        choose(browser, "sort", "oldest").await;
        until_listed(browser, "?sort=oldest", "spring-sale welcome (menu)").await;
        choose(browser, "status", "disabled").await;
        browser.until_it_says("main .empty", "No disabled links.").await;
        let () = browser.eval("(document.getElementById('status').value = '', null)").await;
        browser.click(".search button").await;
        until_listed(browser, "?sort=oldest", "spring-sale welcome menu").await;
        assert_eq!(browser.eval::<Vec<String>>("seen.refused").await, [""; 0]);
        assert_eq!(browser.complaints().await, [""; 0]);

        // Who comes back, or reloads, finds the same list.
        search(browser, "men").await;
        until_listed(browser, "?q=men&sort=oldest", "menu").await;
        browser.click("tr.link a").await;
        browser.until("location.pathname === '/account/links/menu' && document.readyState === 'complete'").await;
        let same = format!(
            "location.search === '?q=men&sort=oldest' && document.readyState === 'complete' && ({LISTED}) === 'menu'
             && document.getElementById('q').value === 'men'"
        );
        let () = browser.eval("(history.back(), null)").await;
        browser.until(&same).await;
        let () = browser.eval("(window.kept = true, location.reload(), null)").await;
        browser.until(&format!("window.kept === undefined && {same}")).await;
    })
    .await;
}

#[tokio::test]
async fn an_earlier_response_is_not_shown_and_each_result_is_announced_once() {
    let world = world_with_links().await;
    browse(world, async |browser| {
        enter(browser, &browser.world.a).await;
        browser.be(WINDOWS, "light").await;
        open(browser, "").await;
        let () = browser.eval(HOLD).await;
        let watch = "((said) => {
          window.told = [];
          new MutationObserver(() => said.textContent && told.push(said.textContent)).observe(said, { childList: true });
        })(document.getElementById('said')) ?? null";
        let () = browser.eval(watch).await;
        let () = browser.eval(PARSED).await;
        search(browser, "spring").await;
        browser.until("asked.length === 1 && asked[0].url.endsWith('/account/links?q=spring')").await;
        assert!(browser.eval::<bool>("document.querySelector('.list').ariaBusy === 'true'").await);
        search(browser, "welcome").await;
        assert!(browser.eval::<bool>("asked[0].signal.aborted").await);
        browser.until("asked.length === 2").await;
        answer(browser, 1).await;
        until_listed(browser, "?q=welcome", "welcome").await;
        answer(browser, 0).await;
        until_listed(browser, "?q=welcome", "welcome").await;
        assert!(browser.eval::<bool>("document.querySelector('[aria-busy]') === null").await);
        assert_eq!(browser.eval::<Vec<String>>("told").await, ["1 link"]);

        // Several changes in quick succession are one search, and the same result is announced again.
        let quick = "((q) => {
          for (const text of ['m', 'me', 'men']) {
            q.value = text;
            q.dispatchEvent(new Event('input', { bubbles: true }));
          }
        })(document.getElementById('q')) ?? null";
        let () = browser.eval(quick).await;
        browser.until("asked.length === 3").await;
        answer(browser, 2).await;
        until_listed(browser, "?q=men", "menu").await;
        search(browser, "winter").await;
        browser.until("asked.length === 4").await;
        answer(browser, 3).await;
        let told: Vec<String> = browser.eval("told").await;
        assert_eq!(told, ["1 link", "1 link", "No links contain “winter”."]);

        // The focus stays in the list, on the same link if it is still there.
        search(browser, "").await;
        browser.until("asked.length === 5").await;
        answer(browser, 4).await;
        let focus = "document.activeElement.value || document.activeElement.id";
        for (number, (text, focused)) in [("welc", "welcome"), ("men", "content")].into_iter().enumerate() {
            search(browser, text).await;
            browser.until(&format!("asked.length === {}", number + 6)).await;
            let () = browser.eval("(document.querySelector('[value=welcome]').focus(), null)").await;
            answer(browser, number + 5).await;
            assert_eq!(browser.eval::<String>(focus).await, focused);
        }
        assert_eq!(browser.eval::<Vec<String>>("told.slice(3)").await, ["3 links", "1 link", "1 link"]);
        let parsed: Vec<String> = browser.eval("parsed").await;
        assert!(!parsed.is_empty() && parsed.iter().all(|text| text == "<main id="), "only the main part: {parsed:?}");
    })
    .await;
}

/// An input method for Japanese, for example, writes what nobody searches for until it is complete.
#[tokio::test]
async fn a_composed_text_is_searched_for_once_it_is_complete() {
    let world = world_with_links().await;
    browse(world, async |browser| {
        enter(browser, &browser.world.a).await;
        browser.be(WINDOWS, "light").await;
        open(browser, "").await;
        let compose = "((q, set) => {
          let timers = 0;
          window.setTimeout = (...all) => { timers += 1; return set(...all); };
          q.dispatchEvent(new CompositionEvent('compositionstart', { bubbles: true }));
          q.value = 'welcome';
          q.dispatchEvent(new InputEvent('input', { bubbles: true, isComposing: true }));
          const during = timers;
          q.dispatchEvent(new CompositionEvent('compositionend', { bubbles: true }));
          window.setTimeout = set;
          return [during, timers];
        })(document.getElementById('q'), window.setTimeout)";
        assert_eq!(browser.eval::<(u32, u32)>(compose).await, (0, 1));
        until_listed(browser, "?q=welcome", "welcome").await;
    })
    .await;
}

#[tokio::test]
async fn what_fails_is_opened_as_a_page() {
    let world = world_with_links().await;
    browse(world, async |browser| {
        enter(browser, &browser.world.a).await;
        browser.be(WINDOWS, "light").await;
        let opened = |what: &str| format!("{what} && window.kept === undefined && document.readyState === 'complete'");
        for failing in
            ["Promise.reject(new TypeError('Failed to fetch'))", "Promise.resolve(new Response('<p>Hello</p>'))"]
        {
            open(browser, "").await;
            let () = browser.eval(&format!("(window.fetch = () => {failing}, null)")).await;
            search(browser, "welcome").await;
            browser.until(&opened(&format!("location.search === '?q=welcome' && ({LISTED}) === 'welcome'"))).await;
        }
        // The service refuses the request.
        open(browser, "").await;
        let () = browser.eval("(document.getElementById('status').options[1].value = 'unknown', null)").await;
        choose(browser, "status", "unknown").await;
        browser.until(&opened("location.search === '?status=unknown'")).await;
        assert_eq!(browser.text("h1").await, "The request is not valid");
        // The session has ended.
        open(browser, "").await;
        let cookie = json!({"name": "session_token", "url": browser.service("/")});
        let _: Value = browser.command("Network.deleteCookies", cookie).await;
        search(browser, "welcome").await;
        browser.until(&opened("location.pathname === '/signin'")).await;
        let next: String = browser.eval("new URLSearchParams(location.search).get('next')").await;
        assert_eq!(next, "/account/links?q=welcome");
    })
    .await;
}
