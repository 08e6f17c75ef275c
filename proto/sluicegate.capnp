@0xd7a5e1c3b09f4826;
# The native protocol of Sluicegate. docs/protocol.md is the normative text; this file is its shape.
#
# A connection carries standard Cap'n Proto stream frames both ways, one ClientFrame or ServerFrame
# each. Fields are added at the end, numbers are never reused, every default is zero. Readers take
# larger structs (a newer peer's) and missing parts as zero.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("sluice::schema");

const protocolVersion :UInt16 = 1;
const keep :UInt32 = 0xffffffff;  # in an override column: what the key has stays

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
}

# Entry flags, a byte each in an entryFlags column.
const entryMayWait :UInt8 = 1;     # wait in the key's queue instead of being denied

# Frame flags of Acquire.
const frameMayWait :UInt8 = 1;     # every entry may wait
const frameForwarded :UInt8 = 2;   # reserved for the distributed mode; ignored

# Detail columns to be returned, bits of Acquire.details.
const detailLimit :UInt8 = 1;
const detailWindow :UInt8 = 2;
const detailRemaining :UInt8 = 4;
const detailReset :UInt8 = 8;
const detailRetry :UInt8 = 16;
const detailRequestId :UInt8 = 32;

# ------------------------------------------------------------------------------ from the client

struct ClientFrame {
  id @0 :UInt64;  # chosen by the client, echoed in every answer
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
  }
}

struct Hello {
  version @0 :UInt16;         # protocolVersion
  wantedShard @1 :UInt32;     # stored plus one; zero is none
  clientName @2 :Text;
  token @3 :Text;             # reserved for access control; ignored
}

struct Acquire {
  details @0 :UInt8;
  flags @1 :UInt8;
  waitLimitMs @2 :UInt32;             # 0: none of its own; at most 3,600,000
  keys @3 :Data;                      # all keys' bytes, end to end
  keySizes @4 :List(UInt16);
  costs @5 :List(UInt32);             # absent: 1 each
  maxRequests @6 :List(UInt32);       # absent or `keep`: what the key has
  maxRequestsInQueue @7 :List(UInt32);
  entryFlags @8 :List(UInt8);
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
}

struct Release {
  keys @0 :Data;
  keySizes @1 :List(UInt16);
  costs @2 :List(UInt32);
}

struct Withdraw {
  target @0 :UInt64;            # the id of an Acquire with waiting entries
  entries @1 :List(UInt32);     # their indexes; none: all
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
}

enum RoutingHash {
  none @0;
  xxh3 @1;   # XXH3-64 with routingSeed over the key, or over the text in its first non-empty {...}
}

struct Details {
  # A column each, as long as the answer's entries, where asked for.
  limit @0 :List(UInt32);
  windowMs @1 :List(UInt64);
  remaining @2 :List(UInt32);
  resetMs @3 :List(UInt64);
  retryMs @4 :List(UInt64);
  requestId @5 :List(UInt64);
}

struct Verdicts {
  count @0 :UInt32;       # entries answered
  verdicts @1 :Data;      # a byte each, or one byte when all agree
  details @2 :Details;    # null when none was asked for
}

struct Granted {
  entries @0 :List(UInt32);  # indexes in the Acquire
  verdicts @1 :Data;         # as in Verdicts
  details @2 :Details;
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

struct Error {
  code @0 :ErrorCode;
  text @1 :Text;
}

struct GoAway {
  reason @0 :Text;
}
