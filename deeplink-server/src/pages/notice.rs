//! What a page says of the form that led to it: a fixed word in the address stands for a fixed sentence.

/// The sentence for a word; an unknown word says nothing.
pub(super) fn sentence(word: &str) -> Option<&'static str> {
    Some(match word {
        "link-made" => "Your link is ready.",
        "link-saved" => "The link is changed. The next tap goes there.",
        "link-deleted" => "The link is deleted.",
        "domain-added" => "The domain is added. Set the two records below, then verify it.",
        "domain-verified" => "The domain is verified.",
        "domain-stands" => "The record is there, and the domain stays verified.",
        "domain-there" => "The domain is here already.",
        "domain-deleted" => "The domain is deleted.",
        "app-saved" => "The app is saved. Phones learn of it when they next ask.",
        "app-deleted" => "The app is deleted.",
        "key-deleted" => "The key is deleted. It no longer works.",
        "gone" => "It is gone, so there is nothing left to delete.",
        "key-shown" => {
            "That form was sent already. A key is shown only once; if you have lost it, delete it and make a new one."
        }
        "source-made" => "The source is there. Its address is behind the button beside its name.",
        "source-deleted" => "The source is deleted, and its address is dead.",
        "webhook-secret-shown" => {
            "That form was sent already. A secret is shown only once; if you have lost it, make a new one on the webhook’s page."
        }
        "webhook-saved" => "The webhook is changed. What is sent from now on goes there.",
        "webhook-on" => "The webhook is on. It is told of what happens from now on.",
        "webhook-off" => "The webhook is off. Nothing is sent to it, and what waited is given up.",
        "webhook-deleted" => "The webhook is deleted. Nothing more is sent to it.",
        "event-sent" => "The event is on its way. Load this page again to see what becomes of it.",
        "invited" => "The invitation is on its way. It works for 7 days.",
        "person-removed" => "They are removed from the team and signed out everywhere.",
        "affiliate-made" => "The affiliate is added. Make a credential for it below.",
        "affiliate-saved" => "The affiliate is changed.",
        "affiliate-deleted" => "The affiliate is deleted, and its credentials no longer work.",
        "credential-deleted" => "The credential is deleted. It no longer works.",
        _ => return None,
    })
}
