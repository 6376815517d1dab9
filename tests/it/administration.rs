//! The Rust client's typed administration, on the real daemon.

use leafd_client::{NewTag, Status, TagChange};

use crate::host::Host;

#[test]
fn tags_are_created_described_changed_raised_listed_and_deleted() {
    let mut host = Host::new().worker(17);
    host.start();
    let client = host.client();
    let settings =
        NewTag { start: Some(100), description: Some("one".into()), ..NewTag::default() };
    let made = client.create_tag("orders", &settings).unwrap();
    assert_eq!(
        (made.tag.as_str(), made.max_id, made.step, made.strict),
        ("orders", 100, 1000, false)
    );
    assert_eq!((made.ceiling, made.masked), (i64::MAX as u64, None));
    let again = client.create_tag("orders", &NewTag::default()).unwrap_err();
    assert_eq!(again.status(), Some(Status::TagExists));
    assert_eq!(client.next_direct("orders").unwrap(), 100);

    let change = TagChange { step: Some(50), ..TagChange::default() };
    assert_eq!(client.change_tag("orders", &change).unwrap().description.as_deref(), Some("one"));
    assert_eq!(client.tag_info("orders").unwrap().step, 50);
    assert!(client.raise_tag("orders", 10_000).unwrap().max_id >= 10_000);

    for number in 0..100 {
        client.create_tag(&format!("tag-{number:03}"), &NewTag::default()).unwrap();
    }
    let all = client.tags().unwrap();
    assert_eq!(all.len(), 101, "two pages");

    let other = &all[0];
    assert_eq!(client.delete_tag(other).unwrap().tag, other.tag);
    assert_eq!(client.tag_info(&other.tag).unwrap_err().status(), Some(Status::TagUnknown));
    host.stop();
}
