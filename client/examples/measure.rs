//! Prints the cost of an id in Rust, from a held run and drawn directly, in nanoseconds. `bench/languages/run` runs it.

use std::time::{Duration, Instant};

use leafd_client::{Client, Error, Tag};

fn cost(tag: &Tag) -> Result<f64, Error> {
    let ms = std::env::var("MS").ok().and_then(|ms| ms.parse().ok()).unwrap_or(300);
    let (limit, began) = (Duration::from_millis(ms), Instant::now());
    let mut drawn = 0;
    while began.elapsed() < limit {
        for _ in 0..100 {
            tag.next()?;
        }
        drawn += 100;
    }
    Ok(began.elapsed().as_nanos() as f64 / f64::from(drawn))
}

fn main() -> Result<(), Error> {
    let tag = Client::builder().build()?.tag("bench")?;
    cost(&tag)?;
    println!("{} {}", cost(&tag)?, cost(&tag.clone().direct())?);
    Ok(())
}
