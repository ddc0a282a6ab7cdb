export { describeStore } from './conformance/index.js'
export type {
  Need,
  OpenedStore,
  ProcessModule,
  StoreHarness,
  TestClock,
  TestRunner,
} from './conformance/suite.js'
export { modelStore, type Clock, type ModelStore, type ModelStoreOptions } from './model-store.js'
export type { RawColumns } from './model-rules.js'
export { FakeClock, testQueue, type TestQueue, type TestQueueOptions } from './test-queue.js'
