import type { ClientBase, ClientConfig } from 'pg';

/** An attempt at a job. */
export interface Job {
  readonly key: string;
  readonly queue: string;
  readonly due: Date;
  readonly payload: any;
  readonly attempt: number;
  readonly traceparent: string | null;
  readonly id: string;
  readonly lease: string;
  /** Is set when the function has to end. Its reason is a Stopped, whose message says why. */
  readonly signal: AbortSignal;
  /**
   * A transaction whose commit ends the job. The worker keeps the connection for others. If the
   * lease has ended, the transaction fails with HW003. If `use` rejects, it is rolled back.
   */
  transaction<T>(use: (client: ClientBase) => Promise<T>): Promise<T>;
}

/** Thrown by a function: run the job again after this time. No attempt is counted. */
export class Snooze extends Error {
  constructor(seconds: number);
}

/**
 * Thrown by a function: the attempt failed. The next one is after `retryAfter` seconds, by default
 * after the backoff of the job. If it is final there is no next one.
 */
export class Fail extends Error {
  constructor(message: string, options?: { retryAfter?: number | null; final?: boolean; cause?: unknown });
}

/** The reason of a signal. */
export class Stopped extends Error {}

/** What drain() did with a job. */
export interface Result {
  key: string;
  attempt: number;
  outcome: 'done' | 'retry' | 'dead' | 'snoozed' | 'cancelled' | 'lost';
  /** What the function returned. */
  value: unknown;
  /** What it threw. */
  error: unknown;
}

export interface Options {
  /** A lease lasts for this time, in seconds, and is extended while the function runs. */
  lease?: number;
  /** The time that functions have at the end of the worker, in seconds, before their signal is set. */
  grace?: number;
  /** Gets a line about each failure. */
  log?: (line: string) => void;
}

export class Worker {
  /** A URL, or the options of a client of pg. */
  constructor(config?: string | ClientConfig, options?: Options);
  /** Gives the jobs of a queue to a function: `concurrency` at once, by default 1. */
  queue(name: string, options: { concurrency?: number }, run: (job: Job) => unknown): this;
  /**
   * Runs jobs until the process gets SIGTERM or SIGINT, or stop() is called. If functions do not
   * end then, it ends the process. A second signal ends it at once.
   */
  run(): Promise<void>;
  /** run() without signals. Resolves with the keys of the jobs that do not end, if there are any. */
  serve(): Promise<string[] | undefined>;
  /**
   * For tests: runs the jobs that are due, one after the other, until none is due or `limit`
   * (1000) have run. It needs no node.
   */
  drain(options?: { limit?: number }): Promise<Result[]>;
  /** Takes no more jobs. What runs goes on. */
  quiet(): void;
  /** Ends run() and serve(): takes no more jobs, and waits for those that run. */
  stop(): void;
}
