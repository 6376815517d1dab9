//! Hosts that issue numbers over boundaries, with a store whose clock drifts and is set, and that is away for hours.

use jiff::tz::TimeZone;
use leafd_core::series::{Period, PeriodKind, Sample};
use leafd_core::{BootMs, UnixMs};

use crate::seed::{Seeded, seeds};

/// True time in microseconds: each clock makes its readings of it.
#[derive(Clone, Copy)]
struct Clock {
    offset_us: u64,
    /// Parts in a million by which it is fast, plus a million.
    speed: u64,
}

impl Clock {
    fn some(rng: &mut Seeded, offset_us: u64) -> Clock {
        Clock { offset_us, speed: rng.u64(999_500..=1_000_500) }
    }

    fn ms(&self, now_us: u64) -> u64 {
        (self.offset_us + (u128::from(now_us) * u128::from(self.speed) / 1_000_000) as u64) / 1_000
    }
}

struct World {
    rng: Seeded,
    zone: TimeZone,
    kind: PeriodKind,
    now_us: u64,
    store: Clock,
    /// When the store's clock was last set.
    set_us: u64,
    store_away: bool,
}

impl World {
    fn store_ms(&self) -> UnixMs {
        UnixMs(self.store.ms(self.now_us))
    }

    /// A reading, which takes a while.
    fn read(&mut self, host: &Clock) -> Option<Sample> {
        if self.store_away {
            return None;
        }
        let sent = BootMs(host.ms(self.now_us));
        self.now_us += self.rng.u64(..20_000);
        let store = self.store_ms();
        self.now_us += self.rng.u64(..20_000);
        Some(Sample { sent, store, received: BootMs(host.ms(self.now_us)) })
    }
}

const READ_EVERY_US: u64 = 5_000_000;

#[test]
fn no_number_is_issued_in_a_wrong_period() {
    let zones = ["CET-1CEST,M3.5.0,M10.5.0/3", "CLT4CLST,M9.1.6/24,M4.1.6/24", "UTC0"];
    let kinds = [
        PeriodKind::Day,
        PeriodKind::Week,
        PeriodKind::Month,
        PeriodKind::Quarter,
        PeriodKind::Year,
    ];
    let (mut boundaries, mut issued, mut longest_wait) = (0, 0_u64, 0);
    for mut rng in seeds(1_000) {
        let zone = TimeZone::posix(zones[rng.usize(..zones.len())]).unwrap();
        let kind = kinds[rng.usize(..kinds.len())];
        let near = UnixMs(rng.u64(1_600_000_000_000..2_000_000_000_000));
        // Days on which clocks are set, leap days, and others.
        let near = match rng.u8(..4) {
            0 => UnixMs(1_835_395_200_000 + rng.u64(..86_400_000)),
            _ => near,
        };
        let end = Period::at(kind, &zone, near).unwrap().end(&zone).unwrap();
        let start_us = (end.0 - rng.u64(..20_000)) * 1_000;
        let store = Clock { offset_us: start_us, speed: rng.u64(999_500..=1_000_500) };
        let hosts: Vec<Clock> = (0..3)
            .map(|_| {
                let offset = rng.u64(..1_000_000_000_000);
                Clock::some(&mut rng, offset)
            })
            .collect();
        let mut samples: [Option<Sample>; 3] = [None; 3];
        let mut read_us = [0_u64; 3];
        let mut world =
            World { rng, zone, kind, now_us: 1_000_000, store, set_us: 0, store_away: false };
        let mut first = None;
        for _ in 0..400 {
            world.now_us += world.rng.u64(..200_000);
            match world.rng.u16(..500) {
                0 => world.store_away = !world.store_away,
                // An operator or NTP sets the store's clock by up to an hour.
                1 => {
                    let by = world.rng.u64(..3_600_000_000);
                    let back = world.rng.bool();
                    let offset = &mut world.store.offset_us;
                    *offset = if back { offset.saturating_sub(by) } else { *offset + by };
                    world.set_us = world.now_us;
                }
                _ => {}
            }
            let host = world.rng.usize(..3);
            let clock = hosts[host];
            // A restart forgets what is known.
            if world.rng.u16(..200) == 0 {
                samples[host] = None;
            }
            let due = samples[host].is_none() || world.now_us >= read_us[host] + READ_EVERY_US;
            if due && let Some(sample) = world.read(&clock) {
                samples[host] = Some(sample);
                read_us[host] = world.now_us;
            }
            let Some(sample) = samples[host] else { continue };
            // Whoever has read the clock since it was set, or reads it soon, is judged.
            let knows = read_us[host] > world.set_us;
            let now = BootMs(clock.ms(world.now_us));
            match sample.present(world.kind, &world.zone, now) {
                Some(Ok((period, until))) => {
                    issued += 1;
                    let present = Period::at(world.kind, &world.zone, world.store_ms()).unwrap();
                    boundaries +=
                        u32::from(first.replace(present).is_some_and(|former| former != present));
                    if knows {
                        assert_eq!(period, present);
                        // So is any number that is issued before that instant.
                        let ahead = until.0.saturating_sub(now.0 + 1).min(3_600_000);
                        let last =
                            world.store.ms(world.now_us + ahead * 1_000 * 1_000_000 / clock.speed);
                        assert_eq!(
                            Period::at(world.kind, &world.zone, UnixMs(last)).unwrap(),
                            period
                        );
                    }
                }
                Some(Err(left)) => {
                    if !world.store_away {
                        longest_wait = left.max(longest_wait);
                    }
                    // Then it has passed.
                    let later = BootMs(now.0 + left);
                    let after = sample.present(world.kind, &world.zone, later);
                    assert!(matches!(after, Some(Ok(_))), "{left}: {after:?}");
                }
                None => panic!("the store's clock makes sense"),
            }
        }
    }
    println!("{issued} numbers, {boundaries} boundaries, longest wait {longest_wait} ms");
}

#[test]
fn a_sample_says_how_exactly_the_clock_is_known() {
    let sample =
        |store| Sample { sent: BootMs(1_000), received: BootMs(1_001), store: UnixMs(store) };
    assert_eq!(sample(50_000).span(BootMs(1_001)), (49_999, 50_004));
    let slow = Sample { received: BootMs(1_500), ..sample(50_000) };
    assert_eq!(slow.span(BootMs(101_500)), (149_899, 150_603));
    // Nothing is known of an instant that makes no sense.
    let nonsense = sample(u64::MAX / 4);
    assert_eq!(nonsense.present(PeriodKind::Day, &TimeZone::UTC, BootMs(1_002)), None);
}

#[test]
fn a_period_is_known_until_shortly_before_its_end_and_again_shortly_after() {
    const DAY_MS: u64 = 86_400_000;
    // How long the reading took, and how long before the day's end the store's clock was read.
    for (took_ms, left_ms, expected) in [
        (500, 100_503, Ok(99_799)),
        (500, 506, Ok(2)),
        (500, 505, Err(508)),
        (1_000_000, 500_000, Err(501_002)),
    ] {
        let now = BootMs(9_000_000);
        let (sent, store) = (BootMs(now.0 - took_ms), UnixMs(20_000 * DAY_MS - left_ms));
        let sample = Sample { sent, received: now, store };
        let present = sample.present(PeriodKind::Day, &TimeZone::UTC, now).unwrap();
        assert_eq!(present.map(|(_, until)| until.0 - now.0), expected);
        let all = sample.present(PeriodKind::All, &TimeZone::UTC, now).unwrap().unwrap();
        assert_eq!(all.1, BootMs(u64::MAX));
    }
}
