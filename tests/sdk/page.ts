/// <reference path="../../sdk/deeplink.d.ts" />
// How a page with a script tag uses the SDK; compiled by tests/run, never run.
deeplink.click("spring-42").then((link: deeplink.TrackedClick) => link.platform);
