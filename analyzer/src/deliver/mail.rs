//! The message as mail: text and HTML, without anything from elsewhere and without scripts.

use std::time::{Duration, SystemTime};

use askama::Template;
use lettre::Message as Mail;
use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Mailbox, MultiPart, SinglePart};

use super::letter::Letter;
use goodput_exposition::sample::TimeMs;

/// Most bytes of a mail.
pub const MAX_BYTES: usize = 100 * 1024;

/// What stands on the outside of a mail.
#[derive(Clone, Debug)]
pub struct Cover<'a> {
    /// Who it is from.
    pub from: &'a Mailbox,
    /// Whose mailbox it is for.
    pub to: &'a str,
    /// Its identity, without angle brackets.
    pub message_id: &'a str,
    /// Stands before the subject; empty in what is sent by the schedule.
    pub mark: &'a str,
    /// Where the contact ends messages.
    pub unsubscribe: Option<&'a str>,
    /// Unix milliseconds.
    pub time_ms: TimeMs,
}

#[derive(Template)]
#[template(path = "mail.html")]
struct Html<'a> {
    letter: &'a Letter,
    mark: &'a str,
    unsubscribe: Option<&'a str>,
}

#[derive(Template)]
#[template(path = "mail.txt")]
struct Text<'a> {
    letter: &'a Letter,
    mark: &'a str,
    unsubscribe: Option<&'a str>,
}

/// The mail, as it is sent.
pub fn mail(letter: &Letter, cover: &Cover<'_>) -> anyhow::Result<Mail> {
    let Cover { mark, unsubscribe, .. } = *cover;
    let html = Html { letter, mark, unsubscribe }.render()?;
    let text = Text { letter, mark, unsubscribe }.render()?;
    let time = SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(cover.time_ms).unwrap_or_default());
    let mut mail = Mail::builder()
        .from(cover.from.clone())
        .to(Mailbox::new(None, cover.to.parse()?))
        .subject(format!("{mark}{}", letter.headline()))
        .date(time)
        .message_id(Some(format!("<{}>", cover.message_id)))
        .raw_header(header("Auto-Submitted", "auto-generated")?);
    if let Some(link) = unsubscribe {
        mail = mail
            .raw_header(header("List-Unsubscribe", &format!("<{link}>"))?)
            .raw_header(header("List-Unsubscribe-Post", "List-Unsubscribe=One-Click")?);
    }
    // The same mail has the same bytes.
    let boundary = cover.message_id.split('@').next().unwrap_or_default();
    let parts = MultiPart::alternative().boundary(boundary);
    Ok(mail.multipart(parts.singlepart(SinglePart::plain(text)).singlepart(SinglePart::html(html)))?)
}

fn header(name: &str, value: &str) -> anyhow::Result<HeaderValue> {
    let name =
        HeaderName::new_from_ascii(name.to_owned()).map_err(|_| anyhow::anyhow!("{name}: no name of a header"))?;
    Ok(HeaderValue::new(name, value.to_owned()))
}
