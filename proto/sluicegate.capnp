@0xd7a5e1c3b09f4826;
# The native protocol of Sluicegate. docs/protocol.md is normative; this file is its schema.
#
# A connection carries standard Cap'n Proto stream frames both ways, one ClientFrame or ServerFrame
# each. Fields are added at the end, numbers are never reused, every default is zero. Readers take
# larger structs (a newer peer's) and missing parts as zero.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("sluice::schema");

const protocolVersion :UInt16 = 1;
const keep :UInt32 = 0xffffffff;  # in an override column: the key keeps its own
const keepWindow :UInt64 = 0xffffffffffffffff;  # the same in the column of windows

# In a column of amounts: the default for this entry, as if the column were absent. In a column of
# `requests` it is `keep`.
const unset :UInt64 = 0xffffffffffffffff;

# Bits of Welcome.features.
const featureQuotas :UInt64 = 1;   # Reserve and the other frames of quotas
const featureWindows :UInt64 = 2;  # the column windowMs of Acquire and AcquireByHandle
const featureLooks :UInt64 = 4;    # costs of 0, and the detail column `position`
const featureForward :UInt64 = 8;  # Forward and Refund
const featureTopology :UInt64 = 16;  # topology: the nodes that share the keys
const featureForwardQuota :UInt64 = 32;  # ForwardQuota, of this connection

enum Verdict {
  none @0;              # never sent
  approved @1;
  denied @2;
  queued @3;            # waits; its outcome follows in Granted
  tableFull @4;
  waitersFull @5;
  overloaded @6;
  notAllowed @7;
  neverFits @8;
  invalidKey @9;
  waitLimit @10;
  withdrawn @11;
  draining @12;
  handlesFull @13;
  ownerUnreachable @14; # reserved for the distributed mode
  connectionWaitersFull @15;
  keyWaitersFull @16;
}

enum ErrorCode {
  none @0;
  malformed @1;
  frameTooLarge @2;
  helloExpected @3;
  unexpectedHello @4;
  unsupportedVersion @5;
  unsupported @6;
  badColumns @7;
  tooManyEntries @8;
  badCost @9;
  badOverride @10;
  badWaitLimit @11;
  idInUse @12;
  tooManyOutstanding @13;
  tooManyConnections @14;
  draining @15;
  helloTimeout @16;
  badFlag @17;
  badAmount @18;
  badLifetime @19;
  badSubject @20;
  frameTimeout @21;
  secretExpected @22;
}

# Entry flags, a byte each in an entryFlags column.
const entryMayWait :UInt8 = 1;     # wait in the key's queue instead of being denied
# Of Forward only: it may wait, but the node that forwards it has no room to remember it.
const entryWaitersFull :UInt8 = 2;            # in the node
const entryConnectionWaitersFull :UInt8 = 4;  # of its connection's share

# A byte each in the column entryDetails of Forward.
const entryWantsDetails :UInt8 = 1;
const entryTakesId :UInt8 = 2;     # a request id; with details only

const permitBytes :UInt32 = 32;    # of each in a column of permits; only their server reads them

# Frame flags of Acquire.
const frameMayWait :UInt8 = 1;     # every entry may wait
const frameForwarded :UInt8 = 2;   # reserved for the distributed mode; ignored

# Detail columns to be returned: bits of Acquire.details.
const detailLimit :UInt8 = 1;
const detailWindow :UInt8 = 2;
const detailRemaining :UInt8 = 4;
const detailReset :UInt8 = 8;
const detailRetryAfter :UInt8 = 16;
const detailRequestId :UInt8 = 32;
const detailPosition :UInt8 = 64;

# ------------------------------------------------------------------------------ from the client

struct ClientFrame {
  id @0 :UInt64;  # chosen by the client, repeated in every answer
  union {
    unset @1 :Void;
    hello @2 :Hello;
    acquire @3 :Acquire;
    acquireByHandle @4 :AcquireByHandle;
    release @5 :Release;
    withdraw @6 :Withdraw;
    inspect @7 :Inspect;
    intern @8 :Intern;
    forget @9 :Forget;
    ping @10 :Void;
    reserve @11 :Reserve;
    check @12 :Reserve;
    settle @13 :Settle;
    cancel @14 :Cancel;
    extend @15 :Extend;
    record @16 :Record;
    usage @17 :Usage;
    quota @18 :QuotaChange;
    reset @19 :Reset;
    consume @20 :Consume;
    forward @21 :Forward;
    refund @22 :Refund;
    topology @23 :Void;  # answered by TopologyReply, now and after each change
    forwardQuota @24 :ForwardQuota;
  }
}

struct Hello {
  version @0 :UInt16;         # protocolVersion
  wantedShard @1 :UInt32;     # stored plus one; zero is none
  clientName @2 :Text;
  token @3 :Text;             # of nodes: the secret of --peer-secret-file
}

struct Acquire {
  details @0 :UInt8;
  flags @1 :UInt8;
  waitLimitMs @2 :UInt32;             # 0: none of its own; at most 3,600,000
  keys @3 :Data;                      # all keys' bytes, end to end
  keySizes @4 :List(UInt16);
  costs @5 :List(UInt32);             # absent: 1 each; 0: a look, which changes nothing
  maxRequests @6 :List(UInt32);       # absent or `keep`: what the key has
  maxRequestsInQueue @7 :List(UInt32);
  entryFlags @8 :List(UInt8);
  windowMs @9 :List(UInt64);          # absent or `keepWindow`: what the key has
}

struct Forward {
  # Entries of another node's clients, decided where they arrive. Acquire's fields, at their places;
  # then what differs between the entries of several requests.
  details @0 :UInt8;                  # of the entries that want details
  flags @1 :UInt8;
  waitLimitMs @2 :UInt32;
  keys @3 :Data;
  keySizes @4 :List(UInt16);
  costs @5 :List(UInt32);
  maxRequests @6 :List(UInt32);
  maxRequestsInQueue @7 :List(UInt32);
  entryFlags @8 :List(UInt8);
  windowMs @9 :List(UInt64);
  operations @10 :List(UInt8);        # an Operation each; absent: acquire, of cost 0: look
  waitLimitsMs @11 :List(UInt32);     # absent: waitLimitMs each
  entryDetails @12 :List(UInt8);      # absent: `details` holds for all entries
}

enum Operation {
  acquire @0;
  release @1;
  look @2;
}

struct Refund {
  # Permits that no client received.
  permits @0 :Data;                   # from Granted, end to end
  target @1 :UInt64;                  # the id of a Forward: it approved these, and was too late
  keys @2 :Data;
  keySizes @3 :List(UInt16);
  costs @4 :List(UInt32);             # absent: 1 each
}

struct AcquireByHandle {
  details @0 :UInt8;
  flags @1 :UInt8;
  waitLimitMs @2 :UInt32;
  handles @3 :List(UInt32);
  costs @4 :List(UInt32);
  maxRequests @5 :List(UInt32);
  maxRequestsInQueue @6 :List(UInt32);
  entryFlags @7 :List(UInt8);
  windowMs @8 :List(UInt64);
}

struct Release {
  keys @0 :Data;
  keySizes @1 :List(UInt16);
  costs @2 :List(UInt32);
}

struct Withdraw {
  target @0 :UInt64;            # the id of an Acquire with waiting entries
  entries @1 :List(UInt32);     # their positions; absent: all
}

struct Inspect {
  key @0 :Data;                 # empty: a page of all keys
  cursor @1 :UInt64;            # from the last page; 0: from the start
  limit @2 :UInt32;             # keys on the page; 0: as many as allowed
}

struct Intern {
  keys @0 :Data;
  keySizes @1 :List(UInt16);
}

struct Forget {
  handles @0 :List(UInt32);
}

# Quotas: an entry of these is admitted whole, or not at all. An absent column means the default for
# all entries, `unset` the default for one. Amounts are at most 2^63 - 1.

struct Reserve {
  flags @0 :UInt8;                    # quota* flags below, of every entry
  waitLimitMs @1 :UInt32;             # 0: none of its own; at most 3,600,000
  lifetimeMs @2 :UInt32;              # of the reservations; 0: the server's default
  subjects @3 :Data;                  # all names of all entries, end to end
  subjectSizes @4 :List(UInt16);      # of each name
  subjectCounts @5 :List(UInt8);      # of each entry, 1 to 8; absent: one each
  requests @6 :List(UInt32);          # absent: 1 each
  inputTokens @7 :List(UInt64);       # absent: 0 each
  maxOutputTokens @8 :List(UInt64);   # absent: the server's default
  costs @9 :List(UInt64);             # absent: 0 each
  ids @10 :Data;                      # the client's own, end to end
  idSizes @11 :List(UInt16);          # absent, or 0: none
  owner @12 :Text;                    # the name of the holder, for people to read
}

struct Settle {
  flags @0 :UInt8;                    # none yet
  reservations @1 :List(UInt64);
  requests @2 :List(UInt32);          # absent: as reserved; likewise below
  inputTokens @3 :List(UInt64);
  cachedInputTokens @4 :List(UInt64); # a part of inputTokens; absent: 0 each
  outputTokens @5 :List(UInt64);
  costs @6 :List(UInt64);
}

struct Cancel {
  flags @0 :UInt8;                    # quotaKeepRequests
  reservations @1 :List(UInt64);
}

struct Extend {
  flags @0 :UInt8;                    # none yet
  reservations @1 :List(UInt64);
  lifetimeMs @2 :UInt32;              # from now on; 0: its last lifetime again
}

struct Record {
  flags @0 :UInt8;                    # quotaWantsLimits
  subjects @1 :Data;
  subjectSizes @2 :List(UInt16);
  subjectCounts @3 :List(UInt8);
  requests @4 :List(UInt32);          # absent: 1 each
  inputTokens @5 :List(UInt64);
  cachedInputTokens @6 :List(UInt64);
  outputTokens @7 :List(UInt64);
  costs @8 :List(UInt64);
  ids @9 :Data;                       # the client's own, end to end: a repeat is charged once
  idSizes @10 :List(UInt16);          # absent, or 0: none
}

struct Consume {
  flags @0 :UInt8;                    # quota* flags below but connection bound, of every entry
  waitLimitMs @1 :UInt32;             # 0: none of its own; at most 3,600,000
  subjects @2 :Data;                  # as in Reserve
  subjectSizes @3 :List(UInt16);
  subjectCounts @4 :List(UInt8);
  requests @5 :List(UInt32);          # absent: 1 each
  inputTokens @6 :List(UInt64);       # absent: 0 each, like all below
  cachedInputTokens @7 :List(UInt64);
  outputTokens @8 :List(UInt64);
  costs @9 :List(UInt64);
  ids @10 :Data;                      # the client's own, end to end: a repeat is charged once
  idSizes @11 :List(UInt16);          # absent, or 0: none
}

struct ForwardQuota {
  # Calls of another node's clients, decided where they arrive; only from nodes that have shown the
  # secret in Hello.
  sender @0 :UInt64;                  # the worker that sends, a random number of its start; never 0
  calls @1 :List(QuotaCall);          # none: the worker says that it is there
  visit @2 :QuotaVisit;               # absent: this node decides the calls
}

struct QuotaVisit {
  # The calls' subjects lie on several nodes: each is asked, and applies what the first subject's
  # node, their home, decides.
  round @0 :UInt64;                   # in which they are decided: a number of the sender's; never 0
  home @1 :UInt16;                    # its place in the list
  pass @2 :QuotaPass;
  arrivalNs @3 :UInt64;               # of the batch at its home, and the number of its first call:
  arrivalNumber @4 :UInt64;           # one order of all calls of all nodes
  asker @5 :UInt64;                   # a number of the connection that asks
  parts @6 :List(QuotaPart);          # of all calls
}

enum QuotaPass {
  look @0;            # what a call leaves to the server
  ask @1;             # holds what fits, until there is a verdict, or for --peer-timeout-millis
  await @2;           # answered when the first call need not wait for the verdict on another one
  apply @3;           # the verdicts
}

struct QuotaPart {
  # What is known of a call: when another node is asked, and in its answer.
  place @0 :UInt32;                   # of the call in its batch
  subjectsHere @1 :UInt8;             # bits of its subjects that the node which is asked has
  state @2 :UInt8;                    # part* states below
  flags @3 :UInt16;                   # part* flags below
  problem @4 :UInt8;                  # QuotaCode of a subject ...
  problemPlace @5 :UInt8;             # ... and which one that is
  code @6 :UInt8;                     # QuotaCode of the limits in the way
  verdict @7 :UInt8;                  # QuotaCode of the answer; 0: there is none yet
  lifetimeMs @8 :UInt32;
  fitsInNs @9 :Int64;                 # from now on; -1: never; -2: nothing is in the way
  earliestInNs @10 :Int64;            # likewise
  queueFitsInNs @11 :Int64;           # likewise
  outputTokens @12 :UInt64;           # that a call which gives none has; all bits set: not known
  reservation @13 :UInt64;            # of the home; 0: not made yet
  homeWaiter @14 :UInt32;             # the place in the home's queues, if the call waits, and ...
  homeShard @15 :UInt8;               # ... its shard there
  waitsHere @16 :UInt8;               # bits of the subjects with parts that have places in queues
  fitsHere @17 :UInt8;                # likewise: with parts that fit
  noWaiterCode @18 :UInt8;            # QuotaCode that says why there is no place
}

const partUndecided :UInt8 = 0;
const partRefused :UInt8 = 1;
const partQueued :UInt8 = 2;
const partAdmitted :UInt8 = 3;
const partDone :UInt8 = 4;

const partHasQuota :UInt16 = 1;
const partLimitsAnything :UInt16 = 2;
const partReservationsFull :UInt16 = 4;
const partAwaitsOwn :UInt16 = 8;
const partAwaitsOthers :UInt16 = 16;
const partIsRepeat :UInt16 = 32;
const partIsFirstRound :UInt16 = 64;
const partHolds :UInt16 = 128;        # there is something to be applied
const partIsTry :UInt16 = 256;        # the call waits already, without names

struct QuotaCall {
  operation @0 :QuotaOperation;
  flags @1 :UInt8;                    # call* flags below
  given @2 :UInt8;                    # given* flags below
  place @3 :UInt8;                    # position: of the subject whose queue it is about
  lifetimeMs @4 :UInt32;              # as in Reserve and Extend
  waitLimitMs @5 :UInt32;             # as in Reserve
  rows @6 :UInt32;                    # holders: at most so many
  requests @7 :UInt64;
  inputTokens @8 :UInt64;
  cachedInputTokens @9 :UInt64;
  outputTokens @10 :UInt64;           # of Reserve: the most there may be
  cost @11 :UInt64;
  reservation @12 :UInt64;            # settle, cancel, extend, show
  binding @13 :UInt64;                # reserve, endBinding: of a connection of the other node, with
                                      # the highest bit set; 0: none
  cursor @14 :UInt64;                 # holders; leaveNode: the number of the call's arrival
  subjects @15 :List(Data);
  clientId @16 :Data;                 # the client's own id
  owner @17 :Data;                    # reserve: the holder's name
  quota @18 :Text;                    # put: as JSON, like in a configuration file
  homeShard @19 :UInt8;               # partFits, partIsOut: of the waiter
  waiter @20 :UInt32;                 # likewise; leaveNode: its call's place in the batch
  arrivalNs @21 :UInt64;              # leaveNode: with `cursor` the call's arrival
}

enum QuotaOperation {
  reserve @0;
  check @1;
  settle @2;
  cancel @3;
  extend @4;
  record @5;
  consume @6;
  show @7;
  usage @8;
  put @9;
  remove @10;
  position @11;
  holders @12;
  reset @13;
  endBinding @14;     # reservations that are bound to this connection end
  endPart @15;        # this node's part of another one's reservation: settled with these amounts
  extendPart @16;     # likewise: its lifetime begins anew
  expirePart @17;     # likewise: its home has expired
  partFits @18;       # a part of a call that waits here fits on the other node
  partIsOut @19;      # likewise: it can never fit
  leaveNode @20;      # a call that waits on this node, too, has left its queues at its home
}

const callMayWait :UInt8 = 1;
# It may wait, but the node that forwards it has no room to remember it.
const callWaitersFull :UInt8 = 2;            # in the node
const callConnectionWaitersFull :UInt8 = 4;  # of its connection's share
const callWantsLimits :UInt8 = 8;
const callWantsViolated :UInt8 = 16;
const callKeepRequests :UInt8 = 32;
const callUndelivered :UInt8 = 64;           # cancel: the client has not received the reservation
const callCancels :UInt8 = 64;               # endPart: cancelled, not settled
const callHandedOver :UInt8 = 64;            # put: by an earlier owner; a quota that was put stays
const callWantsOutcome :UInt8 = 128;         # once it has waited: its limits, too

const givenRequests :UInt8 = 1;
const givenInputTokens :UInt8 = 2;
const givenOutputTokens :UInt8 = 4;
const givenCost :UInt8 = 8;

struct Usage {
  subjects @0 :Data;                  # at most 256; none: a page of all subjects
  subjectSizes @1 :List(UInt16);
  cursor @2 :UInt64;                  # page: from the last one; 0: from the start
  limit @3 :UInt32;                   # page: subjects on it; 0: as many as allowed
}

struct QuotaChange {
  subject @0 :Data;
  remove @1 :Bool;                    # removes what was put; else puts `quota`
  quota @2 :Quota;
}

struct Reset {
  subject @0 :Data;
  all @1 :Bool;                       # every subject; then `subject` is empty
}

# Flags of the frames above.
const quotaMayWait :UInt8 = 1;         # wait in the queue instead of being denied
const quotaConnectionBound :UInt8 = 2; # ends when the connection ends, as if its lifetime had
const quotaWantsLimits :UInt8 = 4;     # report every limit of every subject
const quotaWantsViolated :UInt8 = 8;   # report the limits that deny
const quotaKeepRequests :UInt8 = 16;   # the requests were made: they stay charged

enum Metric {
  requests @0;
  inputTokens @1;
  outputTokens @2;
  tokens @3;
  cost @4;
  concurrency @5;
}

enum LimitKind {
  concurrency @0;     # for the metric concurrency: no period
  fixed @1;
  sliding @2;
  gcra @3;
  anchoredDay @4;
  rollingDay @5;
  calendar @6;
}

enum Ceiling {
  number @0;
  unlimited @1;
  block @2;
}

enum CalendarUnit {
  none @0;
  hour @1;
  day @2;
  week @3;
  month @4;
}

enum QuotaSource {
  none @0;            # unknown subject
  runTime @1;
  file @2;
  profile @3;
  fileDefault @4;     # the default for unknown subjects
}

struct Limit {
  name @0 :Text;
  metric @1 :Metric;
  kind @2 :LimitKind;
  ceiling @3 :Ceiling;
  unit @4 :CalendarUnit;
  amount @5 :UInt64;
  periodMs @6 :UInt64;
  timeZone @7 :Text;
  countCached @8 :Bool;
}

struct Quota {
  limits @0 :List(Limit);
  refundExpired @1 :Bool;
  overtakersMax @2 :UInt32;           # how many may pass the head of the queue; 0: none
  profile @3 :Text;                   # the profile it came from; ignored in QuotaChange
}

# ------------------------------------------------------------------------------ from the server

struct ServerFrame {
  id @0 :UInt64;  # of the client's frame; 0 where there is none
  union {
    unset @1 :Void;
    welcome @2 :Welcome;
    verdicts @3 :Verdicts;
    granted @4 :Granted;
    done @5 :Void;
    interned @6 :Interned;
    inspected @7 :Inspected;
    pong @8 :Void;
    error @9 :Error;
    goAway @10 :GoAway;
    quotaAnswers @11 :QuotaAnswers;
    usageReply @12 :UsageReply;
    topologyReply @13 :TopologyReply;
    quotaOutcomes @14 :QuotaOutcomes;
  }
}

struct Welcome {
  version @0 :UInt16;
  shard @1 :UInt32;               # the one that serves this connection
  shards @2 :UInt32;
  routingHash @3 :RoutingHash;
  routingSeed @4 :UInt64;
  frameBytesMax @5 :UInt32;
  frameEntriesMax @6 :UInt32;
  outstandingFramesMax @7 :UInt32;
  outstandingBytesMax @8 :UInt32;
  waitingEntriesMax @9 :UInt32;   # of this connection
  handlesMax @10 :UInt32;
  keyBytesMax @11 :UInt32;
  instanceId @12 :UInt64;         # random, of this start of the server
  features @13 :UInt64;
  serverVersion @14 :Text;
  restPort @15 :UInt16;           # of the same host; 0: not announced
}

struct TopologyReply {
  # The nodes that share the keys, in the order of their list: the owner of a key is a place in it.
  listDigest @0 :UInt64;          # of its URLs: the same at all nodes of one list; 0: there is none
  nodeHash @1 :NodeHash;
  ownNode @2 :UInt16;             # the place of the server that sends this
  hosts @3 :Data;                 # as the list has them, end to end; of a server without one: empty
  hostSizes @4 :List(UInt16);
  restPorts @5 :List(UInt16);
  # As far as the server that sends this has learned them; 0: it has not been connected yet.
  nativePorts @6 :List(UInt16);   # 0 also: a gocc, which has none
  shards @7 :List(UInt32);
  routingSeeds @8 :List(UInt64);
  instanceIds @9 :List(UInt64);
}

enum NodeHash {
  none @0;
  fnv1a @1;  # FNV-1a of 32 bits over the whole key, modulo the number of nodes
}

enum RoutingHash {
  none @0;
  xxh3 @1;   # XXH3-64 with routingSeed over the key, or over the text in its first non-empty {...}
}

struct Details {
  # The requested columns, each as long as the answer's entries.
  limit @0 :List(UInt32);
  windowMs @1 :List(UInt64);
  remaining @2 :List(UInt32);
  resetMs @3 :List(UInt64);
  retryAfterMs @4 :List(UInt64);
  requestId @5 :List(UInt64);
  position @6 :List(UInt32);      # in the queue, 1 is served next; 0: does not wait. Not in Granted
}

struct Verdicts {
  count @0 :UInt32;       # entries answered
  verdicts @1 :Data;      # a byte each, or one byte when all agree
  details @2 :Details;    # null when none were requested
}

struct Granted {
  entries @0 :List(UInt32);  # positions in the Acquire, Reserve or Consume
  verdicts @1 :Data;         # of an Acquire, as in Verdicts
  details @2 :Details;
  reservations @3 :List(UInt64);  # of a Reserve: 0 where not admitted; absent: none was admitted
  codes @4 :Data;                 # of a Reserve or Consume, as in QuotaAnswers
  retryAfterMs @5 :List(Int64);   # likewise
  permits @6 :Data;               # of a Forward: permitBytes of each approved entry, for Refund
}

struct Interned {
  handles @0 :List(UInt32);
  verdicts @1 :Data;
}

struct Inspected {
  keys @0 :Data;                        # end to end
  keySizes @1 :List(UInt16);
  windowMs @2 :List(UInt64);
  maxRequests @3 :List(UInt32);
  maxRequestsInQueue @4 :List(UInt32);
  approved @5 :List(UInt32);
  denied @6 :List(UInt32);
  waiting @7 :List(UInt32);
  resetMs @8 :List(UInt64);
  cursor @9 :UInt64;                    # for the next page; 0: this was the last
}

enum QuotaCode {
  none @0;               # never sent
  ok @1;
  unlimited @2;
  unknownSubjectAllowed @3;
  queued @4;             # waits; its outcome follows in Granted
  rpdExceeded @5;
  rpmExceeded @6;
  tpmExceeded @7;
  requestsExceeded @8;
  inputTokensExceeded @9;
  outputTokensExceeded @10;
  tokensExceeded @11;
  costExceeded @12;
  concurrencyExceeded @13;
  queueAhead @14;
  deadlineUnmeetable @15;
  waitLimit @16;
  withdrawn @17;
  draining @18;
  waitersFull @19;
  reservationsFull @20;
  subjectsFull @21;
  idInUse @22;
  exceedsLimit @23;
  blocked @24;
  unknownSubject @25;
  subjectsApart @26;     # not given any more
  invalidSubject @27;
  unknownReservation @28;
  alreadySettled @29;
  alreadyCancelled @30;
  alreadyExpired @31;
  invalidQuota @32;
  noSuchQuota @33;
  connectionWaitersFull @34;
  subjectWaitersFull @35;
  notDurable @36;        # of QuotaChange and Reset: nothing was changed
  memoryOnly @37;        # of QuotaChange and Reset: changed, and a restart may undo it
  ownerUnreachable @38;  # another node decides it, and does not answer, or cannot be asked
  failedClosed @39;      # denied for that reason (--peer-failure closed)
}

struct QuotaAnswers {
  # Of Reserve, Check, Settle, Cancel, Extend, Record, Consume, QuotaChange and Reset.
  count @0 :UInt32;                   # entries answered
  codes @1 :Data;                     # a QuotaCode each, or one byte when all agree
  reservations @2 :List(UInt64);      # of Reserve: 0 where not admitted; absent: none was admitted
  retryAfterMs @3 :List(Int64);       # of those that may be denied: -1 never; absent: 0 each
  limits @4 :LimitStates;             # if requested
  detail @5 :Text;                    # of invalidQuota: the fields at fault, and what they must be
}

struct LimitStates {
  # A column each, of equal length, in the order of the entries and of their subjects.
  entries @0 :List(UInt32);           # the entry's position; UsageReply: the subject's
  subjects @1 :List(UInt8);           # the subject's position in its entry
  names @2 :Data;                     # end to end
  nameSizes @3 :List(UInt8);
  metrics @4 :List(UInt8);
  kinds @5 :List(UInt8);
  ceilings @6 :List(UInt8);
  violated @7 :List(UInt8);           # 1: it denies the entry
  amounts @8 :List(UInt64);
  used @9 :List(UInt64);              # everything charged, open reservations included
  reserved @10 :List(UInt64);         # the part of it that is still open
  remaining @11 :List(UInt64);
  periodMs @12 :List(UInt64);
  resetMs @13 :List(UInt64);
  leftOut @14 :UInt32;                # entries, or subjects, whose limits are not all here
}

struct UsageReply {
  names @0 :Data;                     # of the subjects, end to end
  nameSizes @1 :List(UInt16);
  sources @2 :List(UInt8);
  openReservations @3 :List(UInt32);
  waiting @4 :List(UInt32);
  quotas @5 :List(Quota);             # of each subject; empty where its source is none
  limits @6 :LimitStates;
  cursor @7 :UInt64;                  # of a page: for the next one; 0: this was the last
}

struct QuotaOutcomes {
  # Of ForwardQuota: of all its calls; later of those that have waited.
  entries @0 :List(UInt32);           # the calls that have waited; absent: the answers are of all
  answers @1 :List(QuotaOutcome);
  limits @2 :List(ReportedLimit);
  rows @3 :List(ReportedSubject);
  holders @4 :List(ReportedHolder);
  quotas @5 :List(ReportedQuota);
  text @6 :Data;                      # what rows and holders name
  parts @7 :List(QuotaPart);          # of a visit: as many as answers
  reports @8 :List(PartReport);       # likewise: limits of calls
  knowsRound @9 :Bool;                # of an `apply`: what this node has held still was
  clockNs @10 :UInt64;                # of a visit: by the answering node's clock of arrivals
}

struct PartReport {
  place @0 :UInt32;                   # of the call, among those of the visit
  number @1 :UInt32;                  # among the reports of its part
  limit @2 :ReportedLimit;
}

struct QuotaOutcome {
  code @0 :UInt8;                     # QuotaCode
  state @1 :UInt8;                    # of the reservation
  late @2 :Bool;                      # settled after its lifetime
  limitsLeftOut @3 :Bool;
  firstLimit @4 :UInt32;
  limitsCount @5 :UInt32;
  firstRow @6 :UInt32;
  rowsCount @7 :UInt32;               # holders: of `holders`, from firstHolder on
  firstHolder @8 :UInt32;
  position @9 :UInt32;
  lifetimeMs @10 :UInt32;
  reservation @11 :UInt64;
  retryAfterMs @12 :Int64;
  nextCursor @13 :UInt64;
  requests @14 :UInt64;
  inputTokens @15 :UInt64;
  outputTokens @16 :UInt64;
  cost @17 :UInt64;
}

struct ReportedLimit {
  subject @0 :UInt8;
  violated @1 :Bool;
  metric @2 :UInt8;
  kind @3 :UInt8;
  ceiling @4 :UInt8;
  amount @5 :UInt64;
  used @6 :UInt64;
  reserved @7 :UInt64;
  remaining @8 :UInt64;
  periodMs @9 :UInt64;
  resetMs @10 :UInt64;
  name @11 :Data;
}

struct ReportedSubject {
  nameBegin @0 :UInt32;               # in `text`
  nameBytes @1 :UInt32;
  source @2 :UInt8;                   # QuotaSource
  quota @3 :UInt32;                   # in `quotas`, where it has one
  firstLimit @4 :UInt32;
  limitsCount @5 :UInt32;
  openReservations @6 :UInt32;
  waiting @7 :UInt32;
}

struct ReportedHolder {
  reservation @0 :UInt64;
  requests @1 :UInt64;
  inputTokens @2 :UInt64;
  outputTokens @3 :UInt64;
  cost @4 :UInt64;
  admission @5 :UInt8;                # QuotaCode
  state @6 :UInt8;
  late @7 :Bool;
  connectionBound @8 :Bool;
  lifetimeMs @9 :UInt32;
  heldMs @10 :UInt64;
  ownerBegin @11 :UInt32;             # in `text`
  ownerBytes @12 :UInt32;
  subjectsLeftOut @13 :UInt8;
  subjects @14 :List(UInt32);         # begin and size of each name, in `text`
}

struct ReportedQuota {
  json @0 :Text;                      # like in a configuration file
  profile @1 :Text;
}

struct Error {
  code @0 :ErrorCode;
  text @1 :Text;
}

struct GoAway {
  reason @0 :Text;
}
