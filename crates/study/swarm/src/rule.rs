//! The rules of a run. [`crate::ProcessRule`] has the rules for messages of a single process.

use crate::watch::rules;

rules! {
    /// A violation in a run of several hosts.
    pub enum RunRule {
        // Dialogs.
        AckAnswered = "an answerer answered an ACK",
        WrongAnswerer = "a request of a dialog went to an answerer that does not have the call",
        WrongNode = "a request of a dialog went to a node that does not have the call",
        // Forwarding by a balancer.
        Moved = "a request went to another node than the first time",
        Rebranched = "a request went on under another branch than the first time",
        RebranchedLater = "a request went on under another branch than before a restart",
        ClosedNode = "a new call went to a node that takes none",
        Unasked = "a balancer sent something that nobody asked for",
        Waits = "a call waited in a queue for longer than it may",
        // Overload control.
        RefusedReached = "a request that was refused for overload went on",
        AdmittedRefused = "a request that was sent on was refused for overload",
        FeedbackStray = "overload control was offered to, or told, somebody who is no neighbour",
        LimitLeft = "a limit keeps new calls from a member long after the last one",
        // Sites of several pools.
        WrongPool = "a call went to a member of no pool that its route leads to",
        Ghost = "a call that was refused was begun once more by a copy of its INVITE",
        NoRecord = "a call was answered that there is no record of",
        LostRecord = "a call was hung up, and its record says that it was lost",
        RefusedEarly = "a call was refused since there were too many, and there were not",
        TwoRecords = "a call has more than one record",
        // Sharing of call state among proxies.
        TwoStates = "two nodes keep the state of a call",
        Unverified = "a call left the network, and its caller has proved nothing",
        VerifiedByNobody = "a caller counts as verified whom nobody has verified",
        UnclearProof = "a mark does not say whether the caller has to be verified",
        ChallengedAgain = "a caller was challenged again whose credentials are good",
        // Scaling: servers that are started and stopped.
        StoppedBusy = "a server was to be stopped that has calls which its balancer knows of",
        LostByScaling = "a call was lost with a server that its balancer had stopped",
        Flaps = "a server was to be stopped soon after it was started, and was not given up",
        DrainStays = "a scaler drains a server that it takes to be ready",
        OperatorDrain = "other members are drained by an operator than an operator has drained",
        Restless = "a scaler wants something long after the last call",
        RestNumber = "long after the last call another number of servers takes calls than should",
        // A balancer's state.
        OtherShard = "a call is in the table of a shard that does not own it",
        Leases = "a load is not the sum of its leases",
        CallsCounted = "the calls counted at a node are not its live sessions",
        SessionsCounted = "the sessions counted are not those that are there",
        SessionsSeen = "more sessions than calls came in",
        TransactionsSeen = "more transactions than requests came in",
        // After the last call.
        LoadLeft = "a load is left long after the last call",
        TableLeft = "a table is not empty long after the last call",
        QueueLeft = "calls wait in queues long after the last one",
        CallsLeft = "calls are held long after the last one",
        ProxyLeft = "a proxy has something to do long after the last call",
        // Connections.
        OtherMessage = "a message came out of a connection otherwise than it went in",
        // The run as a whole.
        Nobody = "something was sent to an address that nobody has",
        Endless = "there is no end of datagrams",
        CallersLeft = "calls of the callers do not end",
        AnswerersLeft = "calls of the answerers do not end",
        NotAll = "not all calls succeeded without faults",
        Failed = "more calls failed than died with who had them in hand",
        TwoServers = "a call met two servers",
        Panic = "the code under test panicked",
    }
}
