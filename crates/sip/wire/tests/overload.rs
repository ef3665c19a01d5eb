//! Overload control parameters of a Via: written parameters are read back, and no input does harm.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use wire::{OverloadAlgorithm, OverloadEdit, OverloadFeedback, OverloadParams, edit_overload, scan};

fn response(via: &str) -> Vec<u8> {
    format!(
        "SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bKx{via}\r\nFrom: <sip:a@b>;tag=1\r\n\
         To: <sip:a@b>;tag=2\r\nCall-ID: c\r\nCSeq: 1 INVITE\r\nContent-Length: 0\r\n\r\n"
    )
    .into_bytes()
}

fn feedback() -> impl Strategy<Value = OverloadFeedback> {
    let kind = prop_oneof![
        (Just(OverloadAlgorithm::Loss), 0_u32..=100),
        (Just(OverloadAlgorithm::Rate), any::<u32>()),
    ];
    (kind, any::<u32>(), 0_u64..100_000_000_000_000_000).prop_map(
        |((algorithm, value), validity, sequence)| OverloadFeedback {
            algorithm,
            value,
            validity,
            sequence: Some(sequence),
        },
    )
}

const PARTS: [&str; 20] = [
    ";oc",
    ";oc=",
    "=5",
    "oc",
    ";oc-algo=",
    "\"",
    "loss",
    "rate",
    ",",
    ";oc-validity",
    ";oc-seq=",
    "1.5",
    "=0",
    " ",
    ";",
    "\r\n ",
    "99999999999",
    "%",
    "OC-SEQ",
    "\\",
];

proptest! {
    #[test]
    fn written_feedback_is_read_back(feedback in feedback(), before in select(vec!["", ";rport", ";oc;oc-algo=\"x\""])) {
        let mut bytes = response(before);
        edit_overload(&mut bytes, 0, |_| OverloadEdit::Set(feedback));
        let message = scan(&bytes).expect("an edited response stays a response");
        let read = OverloadParams::of(message.top_via(), &bytes).feedback();
        prop_assert_eq!(read, Some(feedback));
        let mut again = bytes.clone();
        edit_overload(&mut again, 0, |_| OverloadEdit::Set(feedback));
        prop_assert_eq!(again, bytes, "a second edit replaces the feedback of the first");
    }

    #[test]
    fn edited_vias_of_any_text_stay_valid(parts in vec(select(PARTS.to_vec()), 0..12), feedback in feedback()) {
        let bytes = response(&parts.concat());
        for edit in [OverloadEdit::Keep, OverloadEdit::Withdraw, OverloadEdit::Set(feedback)] {
            let mut edited = bytes.clone();
            edit_overload(&mut edited, 0, |_| edit);
            // A Via that cannot be read to its end stays unchanged.
            if scan(&bytes).is_ok_and(|message| message.fault().is_some()) {
                prop_assert_eq!(&edited, &bytes);
            }
            if let (Ok(before), Ok(after)) = (scan(&bytes), scan(&edited)) {
                prop_assert_eq!(before.top_via().branch, after.top_via().branch);
                prop_assert_eq!(before.call_id(), after.call_id());
            }
            if edit == OverloadEdit::Withdraw && let Ok(after) = scan(&edited) {
                let left = OverloadParams::of(after.top_via(), &edited).feedback();
                prop_assert!(left.is_none() || after.fault().is_some(), "{:?}", edited.escape_ascii().to_string());
            }
        }
    }

    #[test]
    fn any_bytes_are_edited_without_a_panic(bytes in vec(any::<u8>(), 0..200)) {
        let mut edited = bytes;
        edit_overload(&mut edited, 0, |_| OverloadEdit::Withdraw);
    }
}
