//! The message as an Adaptive Card for a Workflows webhook of Microsoft Teams.
//!
//! Version 1.4, which all clients of Teams show; a message may have 28 KB
//! (learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors/how-to/connectors-using). Texts are Markdown there,
//! so its characters are escaped: no name becomes a link or a picture.

use serde_json::{Value, json};

use super::letter::{Letter, Part, Told, cut};

/// Most bytes of a message.
pub const MAX_BYTES: usize = 28 * 1024;
/// Longest text of a block.
const MAX_TEXT: usize = 600;

/// What is posted; `mark` stands before it.
#[must_use]
pub fn message(letter: &Letter, mark: &str) -> Value {
    let whole = envelope(&card(letter, mark, letter.about.len()));
    if whole.to_string().len() <= MAX_BYTES {
        return whole;
    }
    // Figures of many teams are what may be long; their reports have them.
    envelope(&card(letter, mark, 1))
}

fn envelope(card: &Value) -> Value {
    json!({
        "type": "message",
        "attachments": [{
            "contentType": "application/vnd.microsoft.card.adaptive",
            "contentUrl": null,
            "content": card,
        }],
    })
}

fn card(letter: &Letter, mark: &str, parts: usize) -> Value {
    let headline = escaped(&format!("{mark}{}", letter.headline()));
    let mut body = vec![json!({
        "type": "TextBlock", "text": headline, "size": "Large", "weight": "Bolder", "wrap": true,
    })];
    body.extend(letter.about.iter().take(parts).map(|part| block(&of_part(part))));
    body.extend(letter.findings.iter().enumerate().map(|(n, told)| finding(n + 1, told)));
    body.extend(letter.more.as_ref().map(|more| block(&escaped(more))));
    let mut card = json!({
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": body,
    });
    if let Some(url) = &letter.link {
        card["actions"] = json!([{"type": "Action.OpenUrl", "title": "The whole report", "url": url}]);
    }
    card
}

fn block(text: &str) -> Value {
    json!({"type": "TextBlock", "text": cut(text, MAX_TEXT), "wrap": true})
}

fn of_part(part: &Part) -> String {
    let Part { team, goodput, figures, against, .. } = part;
    let of = team.as_ref().map_or_else(String::new, |team| format!("{}: ", escaped(team)));
    format!("{of}**{goodput}** {figures} {}", escaped(against))
}

fn finding(n: usize, told: &Told) -> Value {
    let mut items = vec![block(&format!("{n}. {}", escaped(&told.sentence())))];
    if let Some(command) = &told.command {
        items.push(json!({"type": "TextBlock", "text": escaped(command), "fontType": "Monospace", "wrap": true}));
    }
    let mut container = json!({"type": "Container", "separator": true, "items": items});
    if let Some(url) = &told.link {
        container["selectAction"] = json!({"type": "Action.OpenUrl", "title": "Open the finding", "url": url});
    }
    container
}

/// Without meaning in Markdown.
fn escaped(text: &str) -> String {
    let escape = |c| match c {
        '\\' | '`' | '*' | '_' | '[' | ']' | '(' | ')' | '#' | '!' | '<' | '>' | '|' | '~' => vec!['\\', c],
        c => vec![c],
    };
    text.chars().flat_map(escape).collect()
}
