//! A script without async: `run` for a call, and `attempts` for a loop of one's own.
//!
//! `cargo run -p relent --example blocking_script`

use std::error::Error;
use std::fs;
use std::io::{self, ErrorKind};

use relent::{CallError, Policy, Retrier};

fn main() -> Result<(), Box<dyn Error>> {
    // Files share nothing with each other, so there is no budget or breaker to spend.
    let disk = Retrier::builder("disk").policy(Policy::file()).repeatable().ungated().build();

    let text = disk.run(|attempt| {
        println!("attempt {} of {}", attempt.number(), attempt.max());
        read_when_unlocked(attempt.number())
    })?;
    println!("read {} bytes", text.len());

    // What would fail again is not tried again, and the original error is at hand.
    match disk.run(|_attempt| fs::read_to_string("/no/such/file")) {
        Err(CallError::GaveUp(gave_up)) => {
            println!("{gave_up}; the error itself: {}", *gave_up);
        }
        other => println!("{other:?}"),
    }

    // A loop of one's own sees every attempt and decides what to do in between.
    let operation = disk.operation();
    let mut attempts = operation.attempts();
    while let Some(attempt) = attempts.next() {
        match attempts.record(read_when_unlocked(attempt.number())) {
            Ok(text) => println!("in the loop: read {} bytes", text.len()),
            Err(error) => println!("in the loop: attempt {}: {error}", attempt.number()),
        }
    }
    if let Some(because) = attempts.because() {
        println!("in the loop: gave up: {because}");
    }
    Ok(())
}

/// A file that somebody else holds until the third attempt.
fn read_when_unlocked(attempt: u32) -> io::Result<String> {
    if attempt < 3 {
        return Err(io::Error::new(ErrorKind::WouldBlock, "locked by another program"));
    }
    Ok("the file's text".to_owned())
}
