// How a bundled program uses the SDK; compiled by tests/run, never run.
import deeplink = require("../../sdk/deeplink");

deeplink.init({ key: "pk_live_x", baseUrl: "https://dl.example.com" });
const converted: Promise<deeplink.Converted> = deeplink.convert({
  type: "purchase", amountCents: 4990, currency: "EUR", metadata: { order: 1 }, occurredAt: new Date(),
});
converted.then((counts) => counts.deduped + 1);
deeplink.attribute({ linkId: "spring-42", context: { deviceModel: "x" } }).catch((error: unknown) => {
  if (error instanceof deeplink.DeeplinkError && (error.retryAfter || 0) > 5) console.log(error.code, error.field);
});
deeplink.reset();
window.deeplink.click("spring-42").then((link) => link.platform);
const undo: () => void = deeplink.handoff("#store", "https://dl.example.com/r/spring-42");
undo();
const id: string | null = deeplink.linkFromUrl();
deeplink.getLink(id || deeplink.installId()).then((link) => link._service_meta.status === "active");
// @ts-expect-error It needs a key.
deeplink.init({});
// @ts-expect-error There is no such member.
deeplink.nothing();
