//! Rules for a process. Each has a name, so that a test can check that each of them detects a violation.

use core::fmt;

/// Declares an enumeration of rules. The text of a rule describes its violation, and has no colon.
macro_rules! rules {
    ($(#[$doc:meta])* pub enum $name:ident { $($rule:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum $name {
            $(#[doc = $text] $rule,)*
        }

        impl $name {
            /// All rules.
            pub const ALL: &[Self] = &[$(Self::$rule),*];

            /// Description of the violation.
            pub fn text(self) -> &'static str {
                match self {
                    $(Self::$rule => $text,)*
                }
            }

            /// The text, a colon, and the details.
            pub fn broken(self, detail: ::core::fmt::Arguments<'_>) -> String {
                format!("{}: {detail}", self.text())
            }
        }
    };
}

pub(crate) use rules;

rules! {
    /// A violation by a single process.
    pub enum ProcessRule {
        // Any element.
        NoSip = "what was sent is no SIP",
        Secure = "a request for SIPS was sent over UDP",
        Surplus = "more was sent than a message",
        Malformed = "a malformed request was neither answered nor dropped",
        AnswerGrowth = "an own answer much longer than its request",
        TokenShown = "one side of a dialog was shown the token of the other",
        // Any element that forwards messages: `Hop`.
        Family = "an element sent by a socket of the other family",
        Unreadable = "an element sent something for what is unreadable",
        ResponseStatus = "an element gave a response another status",
        ResponseVias = "an element took another number of Vias from a response than one",
        ResponseBody = "an element gave a response another body",
        ResponseTarget = "an element sent a response to another than its Via says",
        AnswerTarget = "an element answered another than who asked",
        RequestVias = "an element added another number of Vias to a request than one",
        RequestBody = "an element gave a request another body",
        TopVia = "the topmost Via is that of another listener",
        LowerVia = "an element changed where the Via below leads",
        MaxForwards = "an element counted Max-Forwards wrong",
        MaxBreadth = "an element passed on another Max-Breadth than there was left",
        // Balancers: `BalancerWatch`.
        ResponseCopies = "one response became several",
        ResponseUnasked = "a balancer sent a response to somebody who asked for nothing",
        Copies = "more copies of a request than nodes",
        OtherCall = "what a balancer sent is of another call",
        OwnAnswer = "a balancer accepted a request by itself",
        AckAnswer = "a balancer answered an ACK",
        Stranger = "a balancer sent a request to somebody who is no node",
        // Stateful proxies: `ProxyWatch`.
        ResponseToNothing = "a proxy sent something for a response to nothing",
        Repetition = "a repeated request is neither answered as the first was nor absorbed",
        AckCopies = "an ACK became several",
        AckToRefusal = "an ACK to a refusal of this hop went on",
        AgainUnasked = "a retransmission that no timer asked for",
        AgainElsewhere = "a retransmission to another next hop",
        AgainDiffers = "a retransmission that differs from the first",
        AgainAnswered = "a retransmission of what has been answered",
        AgainTooOften = "more copies of a request than its timers and its receiver allow",
        Passed100 = "a 100 was passed on",
        Passed503 = "a 503 of the next hop was passed on",
        PassedBack = "a proxy sent a response to another than who asked",
        AnswerUnasked = "a proxy answered somebody who did not ask",
        Late503 = "a 503 for a request that was sent on",
        NonInvite = "a status that only an INVITE may get (RFC 4320 section 4)",
        SecondFinal = "another answer after the final one",
        OwnBranch = "a request of the proxy's own under a branch that no INVITE had",
        OwnHop = "a request of the proxy's own to another next hop than its INVITE",
        OwnUri = "a request of the proxy's own for another Request-URI than its INVITE",
        OwnCseq = "a request of the proxy's own with another number than its INVITE",
        OwnCall = "a request of the proxy's own in another call than its INVITE",
        OwnMethod = "a request of the proxy's own that is neither ACK nor CANCEL",
        AckToNone = "an ACK to no refusal",
        AckToOther = "an ACK to another INVITE's refusal",
        AckTag = "an ACK to another party than who refused",
        AckDiffers = "another ACK than the first",
        CancelPassedOn = "a CANCEL of what is under way was passed on",
        CancelUnasked = "a CANCEL that nobody asked for",
        CancelUntimely = "a CANCEL out of time (RFC 3261 section 9.1)",
        SentUnasked = "sent on, and nobody had asked",
        SentAnswered = "sent on after its final answer",
        SentLate = "sent on for the first time, and nobody had asked just now",
        AlternateCancelled = "an alternate for what was cancelled",
        AlternateEarly = "an alternate, and the hop before had not failed",
        OtherBranch = "a repetition without a transaction got another branch",
        RecordRoutes = "a proxy added a wrong number of Record-Routes",
        RecordAddress = "a Record-Route without an address",
        RecordSide = "the wrong side is on top of the Record-Routes",
        RecordLoose = "a Record-Route that does not lead back here, or not by loose routing",
        RecordToken = "a Record-Route without a token",
        NoHop = "a proxy sent a request to somebody who is neither a next hop nor named in its dialog",
        RouteLeft = "the Route that is left is another",
        RouteTarget = "a request went elsewhere than its route set leads",
        // Proxies that share out the state of calls.
        PassedElsewhere = "what belongs to a request without a transaction went elsewhere than the request",
        PassedRebranched = "what belongs to a request without a transaction got another branch",
        PassedNot = "what belongs to a request without a transaction did not go on",
        KeptTwice = "a proxy keeps the state of a call that another one keeps",
        KeptByNobody = "a call left the network, and nobody keeps its state",
        RefusedFull = "a call was refused for want of room, and a neighbour behind could have kept it",
        WrongMark = "a mark does not say whether somebody keeps the state of the call",
        // Proxies that keep the state of calls.
        RecordMissing = "a call has ended, and there is no record of it",
        RecordTwice = "a call has a record more than it has ends",
        RecordWrong = "a record tells of another end than there was",
        HeldCalls = "more calls are held than go on",
        // Forking proxies.
        LostSuccess = "a 2xx to an INVITE was not passed on",
        LoserNotCancelled = "a branch that has lost, or whose request was cancelled, got no CANCEL",
        NotBest = "another final response went back than the best of all branches (RFC 3261 section 16.7 step 6)",
        AfterDecline = "another next hop after a 6xx",
        // Registrars: `HomeWatch`.
        NotFound = "a contact that is registered did not get a call for its user",
        CalledGone = "a call went to a contact that was removed, or had expired, before",
        Unproven = "somebody got through who did not prove to be a user",
        Waits = "a request waits for ever",
        Waiting = "more requests wait than were sent on",
        Transactions = "more transactions than there is reason for",
    }
}

impl ProcessRule {
    /// Panics if the rule does not hold.
    #[track_caller]
    pub(super) fn holds(self, it_does: bool, detail: fmt::Arguments<'_>) {
        if !it_does {
            self.is_broken(detail);
        }
    }

    /// Panics: the rule is broken.
    #[track_caller]
    pub(super) fn is_broken(self, detail: fmt::Arguments<'_>) -> ! {
        panic!("{}", self.broken(detail))
    }

    /// Panics if `is` differs from `must_be`.
    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "both sides are written like those of assert_eq!")]
    pub(super) fn equal<T: PartialEq<U> + fmt::Debug, U: fmt::Debug>(self, is: T, must_be: U) {
        self.holds(is == must_be, format_args!("{is:?} in place of {must_be:?}"));
    }
}
