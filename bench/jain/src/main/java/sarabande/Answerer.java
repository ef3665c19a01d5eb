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
 * A server like that of the balancing papers: a stateful UAS in Java, on the JAIN SIP stack.
 *
 * <pre>java -cp ... sarabande.Answerer ADDRESS PORT NUMBER OBJECTS</pre>
 *
 * <p>It answers INVITE with 100, 180 and 200, and everything else with 200. NUMBER is in its tags and its Contact, so
 * that callers can identify the server. Each call keeps OBJECTS objects of 1 KiB until its BYE, like the call data of an
 * application. They are the work of a garbage collection.
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
        // One thread: with several threads a BYE overtakes the ACK before it, and waits for the ACK.
        properties.setProperty("gov.nist.javax.sip.THREAD_POOL_SIZE", "1");
        properties.setProperty("gov.nist.javax.sip.REENTRANT_LISTENER", "true");
        properties.setProperty("gov.nist.javax.sip.TRACE_LEVEL", "0");
        // Otherwise the whole transaction is kept for the 32 s of timer J, which makes garbage collections longer.
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
            // The transaction exists already, or the call is over.
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
