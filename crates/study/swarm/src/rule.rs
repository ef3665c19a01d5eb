//! The rules of a run. [`crate::ProcessRule`] has the rules for messages of a single process.

use crate::watch::rules;

rules! {
    /// A violation in a run of several hosts.
    pub enum RunRule {
        // Dialogs.
        AckAnswered = "an answerer responded to an ACK",
        WrongAnswerer = "a request within a dialog went to an answerer that does not have the call",
        WrongNode = "a request within a dialog went to a node that does not have the call",
        // Forwarding by a balancer.
        NodeChanged = "a copy of a request went to another node than the first copy",
        BranchChanged = "a copy of a request got another branch than the first copy",
        BranchChangedLater = "a copy of a request got another branch after a restart or takeover",
        ClosedNode = "a new call went to a node that takes no new calls",
        SentWithoutInput = "a balancer sent a message without input",
        WaitTooLong = "a call waited in a queue for longer than allowed",
        // Overload control.
        RefusedForwarded = "a request was forwarded after its refusal for overload",
        ForwardedRefused = "a request was refused for overload after it was forwarded",
        FeedbackTarget = "overload control feedback was offered or sent to an address that is not a neighbour",
        LimitLeft = "a limit keeps new calls from a member long after the last call",
        // Sites of several pools.
        WrongPool = "a call went to a member of a pool that its routes do not lead to",
        RefusedStarted = "a copy of a refused INVITE started the call again",
        NoRecord = "an answered call has no record",
        LostRecord = "the record of a call with an answered BYE says that the call was lost",
        RefusedEarly = "a call was refused because of a limit on calls that was not reached",
        TwoRecords = "a call has more than one record",
        // Sharing of call state among proxies.
        TwoStates = "two nodes keep the state of a call",
        Unverified = "a call left the network, and its caller sent no valid credentials",
        FalselyVerified = "a caller counts as verified without a verification",
        VerificationUnclear = "a mark does not say whether the caller has to be verified",
        ChallengedAgain = "a caller with valid credentials was challenged again",
        // Scaling: servers that are started and stopped.
        BusyServerStopped = "a server was stopped although its balancer knows of calls there",
        LostByScaling = "a call was lost with a server that its balancer had stopped",
        StoppedEarly = "a server was stopped soon after its start, although it was not given up",
        DrainNotEnded = "a scaler drains a server that it considers ready",
        OperatorDrain = "the members with an operator's drain are not the members that the operator drained",
        OrdersAfterEnd = "a scaler gave orders long after the last call",
        ServersAfterEnd = "a wrong number of servers takes calls long after the last call",
        // A balancer's state.
        OtherShard = "a call is in the table of a shard that does not own it",
        Leases = "a load is not the sum of its leases",
        CallsCounted = "the calls counted at a node differ from its live sessions",
        SessionsCounted = "the counted sessions differ from the sessions in the table",
        TooManySessions = "a table has more sessions than calls came in",
        TooManyTransactions = "a balancer has more transactions than requests came in",
        // After the last call.
        LoadLeft = "a node has load long after the last call",
        TableLeft = "a table is not empty long after the last call",
        QueueLeft = "calls wait in a queue long after the last call",
        CallsLeft = "a process holds calls long after the last call",
        ProxyLeft = "a proxy has state or a timer long after the last call",
        // Connections.
        OtherMessage = "a connection delivered another message than the sent one",
        // The run as a whole.
        UnknownAddress = "a message was sent to an address without a host",
        TooManyDatagrams = "the run exceeds its limit of datagrams",
        CallersLeft = "calls of the callers do not end",
        AnswerersLeft = "calls of the answerers do not end",
        FailedWithoutFaults = "calls failed in the phase without faults",
        TooManyFailed = "more calls failed than were lost with a process or answerer",
        TwoServers = "two servers answered one call",
        Panic = "the code under test panicked",
    }
}
