// The types of the client: what its modules share, and what travels over the socket. api.d.ts comes from the server.

import type { components, operations } from "./api.js";

// The operations of the contract, by id: their ids are public names, those of schemas need not be.

type Json<Body> = Body extends { content: { "application/json": infer Data } } ? Data : never;
/** What an object of the contract has, or nothing. */
type Members<Part> = [NonNullable<Part>] extends [never] ? {} : NonNullable<Part>;
type Body<Operation> = Operation extends { requestBody?: infer Sent } ? Json<NonNullable<Sent>> : never;
type InputOf<Id extends keyof operations> = Members<operations[Id]["parameters"]["path"]> &
  Members<operations[Id]["parameters"]["query"]> &
  Members<Body<operations[Id]>>;
/** An operation that clients may call. (The backend's own commands are not among them.) */
export type OperationName = Exclude<keyof operations, `${"server" | "outlet"}.${string}` | `likes.${string}.comment`>;
/** What an operation takes: the members of path, query and body in one object. */
export type Input<Id extends OperationName> =
  | InputOf<Id>
  | (`${Id}.comment` extends keyof operations ? InputOf<`${Id}.comment`> : never);
export type Output<Id extends OperationName> = Json<
  operations[Id]["responses"][keyof operations[Id]["responses"] & (200 | 201)]
>;
/** The arguments of an operation. The input may be left out if all of its members may. */
export type Arguments<Id extends OperationName> = {} extends Input<Id>
  ? [input?: Input<Id>, options?: CommandOptions]
  : [input: Input<Id>, options?: CommandOptions];
type Group<Id> = Id extends `${infer Name}.${string}` ? Name : never;
type NameIn<Of extends string, Id> = Id extends `${Of}.${infer Name}` ? Name : never;
/** The operations by group: `api.comments.create({ id, text })`. */
export type Api = {
  readonly [Of in Group<OperationName>]: {
    readonly [Id in OperationName as NameIn<Of, Id>]: (...input: Arguments<Id>) => Promise<Output<Id>>;
  };
};
/** An operation that lists something page by page. */
export type ListName = {
  [Id in OperationName]: "cursor" extends keyof Input<Id> ? (Output<Id> extends { items: any[] } ? Id : never) : never;
}[OperationName];

/** What such an operation takes, but for the page. */
export type ListInput<Id extends ListName> = Id extends ListName ? Omit<Input<Id>, "cursor" | "limit"> : never;

type TimelinePage = Output<"timeline.read">;
export type Person = TimelinePage["people"][string];
export type Position = TimelinePage["position"];
export type User = Output<"users.following">["items"][number];
export type Favourite = Output<"favourites.list">["items"][number];
export type Notification = Output<"notifications.list">["items"][number];
export type Comment = Output<"comments.list">["items"][number];
export type NewPost = Input<"posts.create">;
/** A post as pages and pushes have it. `version` is that of its counts, `isLive` of one that was pushed.
 * `isRepeat`: a repost of what the timeline has, which is not shown; `at`: the offset at which a repost came. */
export type Post = Omit<TimelinePage["items"][number], "repost" | "quote"> & {
  repost?: Post;
  quote?: { id: number; state: "shown" | "unavailable" | "detached"; post?: Post };
  version?: number;
  isLive?: boolean;
  isRepeat?: boolean;
  at?: number;
};
/** Who else reposted a post, as a page said that was read at an offset. */
export interface Told {
  people: string[];
  count: number;
  at: number;
}
export interface ItemPage<Item> {
  items: Item[];
  next?: string | null;
  people?: Record<string, Person>;
}
export interface Page extends ItemPage<Post> {
  position?: Position;
  read?: TimelinePage["read"];
}

// What is pushed: see docs/events.md.

type Schemas = components["schemas"];
/** An event of the contract, with its post as the stores keep it. */
type OfPost<Event extends { post: object }> = Omit<Event, "post"> & { post: Post };
export type TimelineEvent =
  | OfPost<Schemas["PostCreatedEvent"]>
  | OfPost<Schemas["PostEditedEvent"]>
  | Schemas["PostRepostedEvent"]
  | Schemas["PostGoneEvent"]
  | Schemas["AuthorGoneEvent"]
  | Schemas["TimelineReadEvent"];
export type PostEvent =
  | Schemas["CommentCreatedEvent"]
  | Schemas["CountsEvent"]
  | Schemas["PostEditedEvent"]
  | Schemas["CommentEditedEvent"]
  | Schemas["PostGoneEvent"]
  | Schemas["CommentGoneEvent"];
export type NotificationEvent =
  | Schemas["NotificationUpdatedEvent"]
  | Schemas["NotificationGoneEvent"]
  | Schemas["NotificationsReadEvent"]
  | Schemas["LikeSettledEvent"]
  | Schemas["LikeChangedEvent"]
  | Schemas["LikeRevertedEvent"]
  | Schemas["FiltersChangedEvent"];
/** What is pushed on a channel, by its name. Channels of the application carry what its backend publishes. */
export type ChannelEvent<Name extends string> = Name extends `${"timeline" | "list" | "user" | "topic"}:${string}`
  ? TimelineEvent
  : Name extends `post:${string}`
    ? PostEvent
    : Name extends `notifications:${string}`
      ? NotificationEvent
      : any;

// The connection.

export interface FeedlineOptions extends ConnectionOptions {
  user: string;
  /** How many posts a timeline keeps; default 500. */
  keep?: number;
}
export interface ConnectionOptions {
  /** For example "/connection/websocket", relative to the page. */
  url: string;
  /** The user of the tokens: one of another user ends the connection with 3500. */
  user?: string;
  token?: string;
  /** Called without a token, before it expires, and when the server says that it has; null ends the connection. */
  getToken?: () => Promise<string | null>;
  /** What the server calls this client; at most 16 characters. */
  name?: string;
  transport?: TransportFactory;
}
export type TransportFactory = (url: string, on: TransportEvents) => Transport;
export interface TransportEvents {
  open(): void;
  /** One or more messages, separated by line feeds. */
  frame(frame: string): void;
  close(code: number, reason: string): void;
}
export interface Transport {
  send(frame: string): void;
  /** Afterwards, no event is called. */
  close(): void;
  /** The connect reply's session and node, for transports that send over requests of their own. */
  established?(to: { session?: string; node?: string }): void;
}

export type ConnectionState =
  | { name: "offline" | "connecting" | "live"; since: number }
  | { name: "lost"; since: number; attempt: number; retryAt: number | null; code: number; reason: string }
  | { name: "ended"; since: number; code: number; reason: string; signedOut: boolean };
export interface ConnectionEvents {
  state: ConnectionState;
  /** The user's filters have changed: timelines, comments and notifications are read anew. */
  filters: Schemas["FiltersChangedEvent"];
  change: void;
}
export interface CommandOptions {
  timeoutMs?: number;
  /** Called with the reply before anything that stands behind it in the same frame. */
  answered?: (reply: any) => void;
}
/** An error of the server, or of the way to it: a FeedlineError. */
export interface Failure extends Error {
  /** The HTTP status or the code of the protocol; 0: no answer. */
  code: number;
  /** For example "not_found"; "timeout", "lost" and "offline" are local; "" if unknown. */
  reason: string;
  field: string | null;
  temporary: boolean;
  /** Unknown: it may have been executed, as after a 5xx other than busy. */
  outcome: "refused" | "unknown" | "unsent";
}
export interface ErrorInit {
  code?: number;
  message: string;
  reason?: string;
  field?: string | null;
  temporary?: boolean;
  outcome?: "refused" | "unknown" | "unsent";
}

export interface SubscribeOptions {
  /** Whether the server subscribes the channel at connect. */
  byServer?: boolean;
  /** A subscription token, for channels that need one. */
  getToken?: () => Promise<string>;
}
export interface SubscribedEvent {
  wasRecovering: boolean;
  /** False: what the channel says is not complete; read the state again. */
  recovered: boolean;
  /** What was recovered. It follows one by one. */
  missed: Publication[];
  lostFor: number;
}
export interface ChannelHandlers<Event = any> {
  subscribed?(event: SubscribedEvent): void;
  publication?(event: { data: Event; offset: number }): void;
  unsubscribed?(event: { code: number; reason: string }): void;
  join?(info: any): void;
  leave?(info: any): void;
}
export interface Channel {
  name: string;
  handlers: Set<ChannelHandlers>;
  byServer: boolean;
  getToken?: () => Promise<string>;
  state: "idle" | "subscribing" | "subscribed";
  position: Position | null;
  /** When it was lost with the connection; 0 while it is not. */
  lostAt: number;
}

// The wire: the Centrifuge client protocol, as JSON.

export interface Publication {
  data: any;
  offset?: number;
  epoch?: string;
}
export interface SubscribeReply {
  recoverable?: boolean;
  was_recovering?: boolean;
  recovered?: boolean;
  offset?: number;
  epoch?: string;
  publications?: Publication[];
}
export interface ConnectReply {
  subs?: Record<string, SubscribeReply>;
  ping?: number;
  pong?: boolean;
  expires?: boolean;
  ttl?: number;
  session?: string;
  node?: string;
}
export interface Push {
  channel?: string;
  pub?: Publication;
  join?: { info: any };
  leave?: { info: any };
  subscribe?: SubscribeReply;
  unsubscribe?: { code: number; reason: string };
  disconnect?: { code: number; reason: string };
}
export interface Message {
  id?: number;
  push?: Push;
  error?: ErrorInit;
  [reply: string]: any;
}

// The stores.

/** An operation that lists something with its input, and the channel that keeps it live. */
export type Source<Id extends ListName = ListName> = {
  [Method in Id]: {
    method: Method;
    channel?: string;
    byServer?: boolean;
  } & ({} extends ListInput<Method> ? { params?: ListInput<Method> } : { params: ListInput<Method> });
}[Id];
/** An operation that lists posts. */
export type PostListName = {
  [Id in ListName]: Output<Id> extends { items: { text: string; author: string; likes: number }[] } ? Id : never;
}[ListName];
/** The replies to a comment instead of the comments on the post; the newest first, or the oldest. */
export interface CommentOptions {
  replyTo?: number;
  order?: "newest" | "oldest";
}
/** What the events of a list are; "reverted": the server refused what was marked here. */
export interface ListEvents {
  change: void;
  page: any;
  reverted: { id: string; error: Failure };
}
/** What a store reads into. */
export interface List {
  isRead: boolean;
  /** The next page's cursor; null at the end, undefined if it is not known. */
  next: string | null | undefined;
  /** Takes a page, and says whether the list reaches further down. */
  take(page: any): boolean;
}
/** A post as it is to be shown. */
export interface Entry {
  /** Stays when a pending post becomes a stored one. */
  key: string;
  /** 0 until it is stored. */
  id: number;
  /** With `likes` and `liked` as they are to be shown. */
  post: Post;
  state: "pending" | "stored" | "failed";
  error: Failure | null;
  /** It was pushed, or written here. */
  isLive: boolean;
  like: LikeView;
}
/** What happened to the connection, shown above the newest entry whose id is not larger than `below`. */
export interface Mark {
  key: string;
  kind: "recovered" | "reloaded";
  below: number;
  at: number;
  lostFor: number;
  /** How many posts were missed and recovered. */
  posts: number;
}
export interface Draft {
  input: NewPost;
  entry: Entry;
  /** The newest post that was known when it was written: a later one may be its own. */
  after: number;
}

export interface Likeable {
  id: number;
  likes: number;
  liked?: boolean;
}
export interface LikeView {
  liked: boolean;
  likes: number;
  state: "settled" | "pending" | "reverted";
  /** Of a reverted one: "gone", "hidden" or "failed"; "refused", "rate_limited" or "busy" if it was not accepted. */
  reason: string;
}
export interface PendingLike extends Likeable {
  type: "post" | "comment";
  /** What was so before, and its count as far as is known since. */
  liked: boolean;
  want: boolean;
  /** What the server acknowledged last. */
  acked: boolean | null;
  /** How many acknowledged requests are not settled; below 0 if settlements came before. */
  open: number;
  isAsking: boolean;
  final?: Settled;
}
export interface Settled {
  id: number;
  liked: boolean;
  likes: number;
  /** That of the count. */
  version?: number;
}
export interface LikeEvents {
  /** The id of what is to be shown anew. */
  change: number;
  settled: Settled;
  reverted: { id: number; reason: string };
}
