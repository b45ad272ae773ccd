//! Numbers, texts and times as bytes, and back. What cannot be read is damage, and is said to be.

use std::time::Duration;

use relent_policy::Timestamp;

use crate::error::Error;

/// About 73 years: two of them can be added to any time until 2116.
const DURATION_MAX: u64 = 1 << 61;

/// Reads what was written, in order.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0 }
    }

    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let taken = self.at.checked_add(count).and_then(|end| self.bytes.get(self.at..end));
        let taken = taken.ok_or_else(|| damaged("ends too early"))?;
        self.at += count;
        Ok(taken)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Error> {
        Ok(self.take(1)?[0])
    }

    pub(super) fn u16(&mut self) -> Result<u16, Error> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32, Error> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64, Error> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    pub(super) fn time(&mut self) -> Result<Timestamp, Error> {
        self.u64().map(Timestamp::from_nanos)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        self.take(N)?.try_into().map_err(|_| damaged("ends too early"))
    }

    /// A text after its length in 4 bytes.
    pub(super) fn text(&mut self) -> Result<String, Error> {
        let length = self.u32()? as usize;
        text(self.take(length)?)
    }

    /// A text after its length in one byte.
    pub(super) fn name(&mut self) -> Result<String, Error> {
        let length = usize::from(self.u8()?);
        text(self.take(length)?)
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    pub(super) fn rest(self) -> &'a [u8] {
        &self.bytes[self.at..]
    }
}

pub(super) fn text(bytes: &[u8]) -> Result<String, Error> {
    let text = String::from_utf8(bytes.to_vec());
    text.map_err(|_| damaged("has a text that is none"))
}

pub(super) fn damaged(what: &str) -> Error {
    Error::Damaged(format!("a value in Redis {what}"))
}

pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
    out.extend(length.to_be_bytes());
    out.extend(&text.as_bytes()[..length as usize]);
}

/// A name of at most 255 bytes.
pub(super) fn put_name(out: &mut Vec<u8>, name: &str) {
    let length = u8::try_from(name.len()).unwrap_or(u8::MAX);
    out.push(length);
    out.extend(&name.as_bytes()[..usize::from(length)]);
}

/// A duration that can be added to a time.
pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX).min(DURATION_MAX)
}

/// A time that a duration can be added to.
pub(super) fn start(at: Timestamp) -> u64 {
    at.as_nanos().min(u64::MAX - 2 * DURATION_MAX)
}
