/** Members of kt_engine_params; what is left out or 0 is chosen by the library. */
export interface ModelOptions {
  n_ctx?: number; n_batch?: number; n_ubatch?: number; n_seq_max?: number; n_threads?: number;
  n_threads_batch?: number; kv_bytes?: number; n_parallel?: number; n_queue_max?: number; gap_ms?: number;
}

/** Members of kt_sampling, kt_gen_params and kt_request_params. */
export interface AnswerOptions {
  seed?: number; temperature?: number; dynatemp_range?: number; dynatemp_exponent?: number; top_k?: number;
  top_p?: number; min_p?: number; typical_p?: number; top_n_sigma?: number; xtc_probability?: number;
  xtc_threshold?: number; repeat_last_n?: number; repeat_penalty?: number; frequency_penalty?: number;
  presence_penalty?: number; dry_multiplier?: number; dry_base?: number; dry_allowed_length?: number;
  dry_penalty_last_n?: number; mirostat?: number; mirostat_tau?: number; mirostat_eta?: number; min_keep?: number;
  n_predict?: number; ignore_eog?: boolean; loop_tokens?: number; min_tokens?: number; priority?: number; deadline_ms?: number;
  no_cache?: boolean; exact_kv?: boolean; shift_context?: boolean; n_keep?: number;
  /** What it was taught counts, and the answer can be corrected. */
  learner?: Learner;
  /** false: corrections are recalled where a question is asked again, and do not enter prompts as notes. */
  notes?: boolean;
  stop?: string | string[];
  signal?: AbortSignal;
}

export interface Report {
  finish: "eog" | "stop" | "length" | "context" | "cancelled" | "deadline" | "loop";
  seed?: bigint; n_prompt?: number; n_cached?: number; n_generated?: number;
  prefill_us?: number; decode_us?: number; total_us?: number;
}

/** What is thrown: `code` is "KT_E_FORMAT" or its like, `where` the file, key or JSON path at fault. */
export interface KentangError extends Error { code: string; where: string; retryMs: number }

export interface Message { role: string; content: string; [key: string]: unknown }

export class Answer implements AsyncIterable<string> {
  private constructor();
  readonly ids: number[];
  /** Once it is over. */
  readonly report?: Report;
  [Symbol.asyncIterator](): AsyncGenerator<string, void, undefined>;
  text(): Promise<string>;
  cancel(): void;
  /** Of an answer that is over and was made with a learner: the feedback's id. Such an answer is kept until close(). */
  correct(text: string): Promise<number>;
  rate(score: number): Promise<number>;
  close(): void;
}

export class Session {
  private constructor();
  readonly tokens: Int32Array;
  chat(messages: string | Message[], options?: AnswerOptions): Answer;
  generate(text: string, options?: AnswerOptions): Answer;
  truncate(n: number): void;
  save(path: string): void;
  restore(path: string): void;
  close(): void;
}

export class Learner {
  private constructor();
  forget(id: number): void;
  close(): void;
}

export interface ModelInfo {
  name: string; arch: string; quant: string; n_params: number; n_vocab: number; n_ctx_train: number; d_model: number;
  bos_id: number; eos_id: number;
}

export class Model {
  constructor(path?: string | null, options?: ModelOptions);
  readonly info: ModelInfo;
  chat(messages: string | Message[], options?: AnswerOptions): Answer;
  generate(prompt: string | Iterable<number>, options?: AnswerOptions): Answer;
  session(): Session;
  learner(folder: string): Learner;
  embed(text: string, options?: { pooling?: "mean" | "last"; normalize?: boolean }): Promise<Float32Array>;
  tokenize(text: string, options?: { special?: boolean }): Int32Array;
  detokenize(ids: Iterable<number>): string;
  close(): void;
}

export const version: string;
