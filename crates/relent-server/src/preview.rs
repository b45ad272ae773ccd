//! The beginning of an answer's body, with what looks like a secret taken out.
//!
//! Kept only where the policy asks for it (`responsePreviewBytes`). What is taken out is found by its
//! looks, so this is a help against accidents and no promise: whoever must not have secrets of a
//! target in the attempt log asks for no preview. REQ-P2.

use bytes::Bytes;

const HIDDEN: &str = "[redacted]";
/// Letters and digits in one piece that are at least this long, with a digit among them: a token.
const TOKEN_CHARS_MIN: usize = 20;
/// Digits in one piece: an account, a card, a telephone.
const DIGITS_MIN: usize = 9;
/// A value behind one of these names is hidden whatever it looks like.
const NAMES: [&str; 8] =
    ["token", "secret", "password", "passwd", "api_key", "apikey", "authorization", "signature"];

/// What is kept of a body. `None` if it is not text.
pub(crate) fn of(body: &[u8]) -> Option<Bytes> {
    // The body was cut somewhere, perhaps inside a character.
    let text = match str::from_utf8(body) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => {
            str::from_utf8(&body[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    Some(Bytes::from(redact(text)))
}

fn redact(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    let mut behind_a_name = false;
    while let Some(first) = rest.chars().next() {
        let word = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
        if word == 0 {
            kept.push(if first.is_control() && !first.is_whitespace() {
                '\u{fffd}'
            } else {
                first
            });
            rest = &rest[first.len_utf8()..];
            // A name's value may stand behind quotes, a colon, an equals sign and blanks.
            behind_a_name &= matches!(first, '"' | '\'' | ':' | '=' | ' ');
            continue;
        }
        let (piece, after) = rest.split_at(word);
        let is_scheme = ["bearer", "basic"].iter().any(|scheme| piece.eq_ignore_ascii_case(scheme));
        if is_scheme {
            kept.push_str(piece);
            behind_a_name = true;
        } else {
            let hidden = behind_a_name || looks_secret(piece);
            kept.push_str(if hidden { HIDDEN } else { piece });
            behind_a_name = !hidden && is_name(piece);
        }
        rest = after;
    }
    kept
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '+' | '/' | '.' | '@' | '~' | '%')
}

fn is_name(piece: &str) -> bool {
    let lower = piece.to_ascii_lowercase().replace('-', "_");
    NAMES.iter().any(|name| lower.contains(name))
}

fn looks_secret(piece: &str) -> bool {
    let letters_and_digits = piece.chars().filter(|c| c.is_alphanumeric()).count();
    let digits = piece.chars().filter(char::is_ascii_digit).count();
    let is_address = piece.contains('@') && piece.contains('.');
    let is_token = letters_and_digits >= TOKEN_CHARS_MIN && digits > 0;
    let is_number = digits >= DIGITS_MIN && digits * 2 > letters_and_digits;
    is_address || is_token || is_number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_taken_out_and_the_rest_stays() {
        let cases = [
            (r#"{"error":"no such order 17"}"#, r#"{"error":"no such order 17"}"#),
            (r#"{"token": "abc"}"#, r#"{"token": "[redacted]"}"#),
            ("api-key=x1&next=2", "api-key=[redacted]&next=2"),
            ("Authorization: Bearer abc.def", "Authorization: Bearer [redacted]"),
            ("sent Bearer abc.def", "sent Bearer [redacted]"),
            ("mail ada@example.com now", "mail [redacted] now"),
            ("card 4111111111111111.", "card [redacted]"),
            ("id 0a1b2c3d4e5f60718293a4b5 gone", "id [redacted] gone"),
            ("a bell\u{7} rings", "a bell\u{fffd} rings"),
        ];
        for (text, expected) in cases {
            assert_eq!(redact(text), expected, "{text}");
        }
    }

    #[test]
    fn a_character_cut_in_half_is_left_out_and_bytes_are_no_text() {
        assert_eq!(of("né".as_bytes().split_last().unwrap().1), Some(Bytes::from_static(b"n")));
        assert_eq!(of(&[0x89, b'P', b'N', b'G', 0xff]), None);
    }
}
