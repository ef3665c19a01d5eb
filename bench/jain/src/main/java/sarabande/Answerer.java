package sarabande;

import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import javax.sip.DialogTerminatedEvent;
import javax.sip.IOExceptionEvent;
import javax.sip.RequestEvent;
import javax.sip.ResponseEvent;
import javax.sip.ServerTransaction;
import javax.sip.SipException;
import javax.sip.SipFactory;
import javax.sip.SipListener;
import javax.sip.SipProvider;
import javax.sip.SipStack;
import javax.sip.TimeoutEvent;
import javax.sip.TransactionTerminatedEvent;
import javax.sip.header.ContactHeader;
import javax.sip.header.ToHeader;
import javax.sip.message.MessageFactory;
import javax.sip.message.Request;
import javax.sip.message.Response;

/**
 * A server as the balancing papers had it: a stateful UAS in Java, on the SIP stack of JAIN.
 *
 * <pre>java -cp ... sarabande.Answerer ADDRESS PORT NUMBER OBJECTS</pre>
 *
 * <p>It answers INVITE with 100, 180 and 200, and everything else with 200. The number is in its tags and its Contact, so
 * that callers know which server they have. Each call keeps so many objects of 1 KiB until its BYE, as an application
 * keeps what it knows of a call: what a collector of garbage has to walk through.
 */
public final class Answerer implements SipListener {
    private static final byte[] SDP =
            "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio 9 RTP/AVP 0\r\n".getBytes();

    private final SipProvider provider;
    private final MessageFactory messages;
    private final SipFactory factory;
    private final ContactHeader contact;
    private final String tag;
    private final int objects;

    private Answerer(String address, int port, String number, int objects) throws Exception {
        Properties properties = new Properties();
        properties.setProperty("javax.sip.STACK_NAME", "answerer" + number);
        // One after the other: with several threads a BYE overtakes the ACK before it, and waits for that.
        properties.setProperty("gov.nist.javax.sip.THREAD_POOL_SIZE", "1");
        properties.setProperty("gov.nist.javax.sip.REENTRANT_LISTENER", "true");
        properties.setProperty("gov.nist.javax.sip.TRACE_LEVEL", "0");
        // Without it all of a transaction is kept for the 32 s of timer J, and collectors have to walk through that.
        properties.setProperty("gov.nist.javax.sip.AGGRESSIVE_CLEANUP", "true");
        factory = SipFactory.getInstance();
        factory.setPathName("gov.nist");
        SipStack stack = factory.createSipStack(properties);
        messages = factory.createMessageFactory();
        provider = stack.createSipProvider(stack.createListeningPoint(address, port, "udp"));
        provider.setAutomaticDialogSupportEnabled(true);
        var uri = factory.createAddressFactory().createSipURI("s" + number, address);
        uri.setPort(port);
        contact = factory.createHeaderFactory().createContactHeader(factory.createAddressFactory().createAddress(uri));
        tag = "s" + number;
        this.objects = objects;
        provider.addSipListener(this);
        stack.start();
    }

    public static void main(String[] arguments) throws Exception {
        new Answerer(
                arguments[0], Integer.parseInt(arguments[1]), arguments[2], Integer.parseInt(arguments[3]));
        Thread.currentThread().join();
    }

    @Override
    public void processRequest(RequestEvent event) {
        Request request = event.getRequest();
        try {
            if (request.getMethod().equals(Request.INVITE)) {
                answer(event, request);
            } else if (!request.getMethod().equals(Request.ACK)) {
                transaction(event).sendResponse(messages.createResponse(Response.OK, request));
            }
        } catch (Exception e) {
            // A copy whose transaction is there already, or a call that is over.
            System.err.println(e);
        }
    }

    private ServerTransaction transaction(RequestEvent event) throws SipException {
        ServerTransaction known = event.getServerTransaction();
        try {
            return known != null ? known : provider.getNewServerTransaction(event.getRequest());
        } catch (javax.sip.TransactionAlreadyExistsException e) {
            throw new SipException("a copy", e);
        }
    }

    private void answer(RequestEvent event, Request request) throws Exception {
        ServerTransaction transaction = transaction(event);
        transaction.sendResponse(messages.createResponse(Response.TRYING, request));
        List<byte[]> kept = new ArrayList<>(objects);
        for (int i = 0; i < objects; i++) {
            kept.add(new byte[1024]);
        }
        transaction.getDialog().setApplicationData(kept);
        Response ringing = messages.createResponse(Response.RINGING, request);
        ((ToHeader) ringing.getHeader(ToHeader.NAME)).setTag(tag);
        ringing.addHeader(contact);
        transaction.sendResponse(ringing);
        Response ok = messages.createResponse(Response.OK, request);
        ((ToHeader) ok.getHeader(ToHeader.NAME)).setTag(tag);
        ok.addHeader(contact);
        ok.setContent(SDP, factory.createHeaderFactory().createContentTypeHeader("application", "sdp"));
        transaction.sendResponse(ok);
    }

    @Override
    public void processDialogTerminated(DialogTerminatedEvent event) {
        event.getDialog().setApplicationData(null);
    }

    @Override
    public void processResponse(ResponseEvent event) {}

    @Override
    public void processTimeout(TimeoutEvent event) {}

    @Override
    public void processIOException(IOExceptionEvent event) {}

    @Override
    public void processTransactionTerminated(TransactionTerminatedEvent event) {}
}
