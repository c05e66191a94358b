/**
 * A seccomp filter for a process that has loaded all its code and only computes from now on: it can use its memory, its threads and the
 * descriptors that it has, and get no new ones. Everything that is not listed fails with EPERM.
 */

/** Numbers of a system call: on x64, and on arm64 if it exists there. */
type Numbers = readonly [x64: number, arm64?: number];

const ALLOWED: readonly Numbers[] = [
  // Descriptors that are open already.
  [0, 63], // read
  [1, 64], // write
  [17, 67], // pread64
  [19, 65], // readv
  [20, 66], // writev
  [8, 62], // lseek
  [3, 57], // close
  [5, 80], // fstat
  [48, 210], // shutdown
  [51, 204], // getsockname
  [55, 209], // getsockopt
  // The event loop.
  [7], // poll
  [271, 73], // ppoll
  [232], // epoll_wait
  [281, 22], // epoll_pwait
  [441, 441], // epoll_pwait2
  [233, 21], // epoll_ctl
  [291, 20], // epoll_create1
  [290, 19], // eventfd2
  // Memory.
  [9, 222], // mmap
  [11, 215], // munmap
  [10, 226], // mprotect
  [25, 216], // mremap
  [27, 232], // mincore
  [28, 233], // madvise
  [12, 214], // brk
  [149, 228], // mlock
  [150, 229], // munlock
  [329, 288], // pkey_mprotect
  [330, 289], // pkey_alloc
  [331, 290], // pkey_free
  // Threads and signals of this process.
  [202, 98], // futex
  [449, 449], // futex_waitv
  [24, 124], // sched_yield
  [143, 121], // sched_getparam
  [145, 120], // sched_getscheduler
  [204, 123], // sched_getaffinity
  [309, 168], // getcpu
  [218, 96], // set_tid_address
  [273, 99], // set_robust_list
  [334, 293], // rseq
  [324, 283], // membarrier
  [13, 134], // rt_sigaction
  [14, 135], // rt_sigprocmask
  [15, 139], // rt_sigreturn
  [127, 136], // rt_sigpending
  [128, 137], // rt_sigtimedwait
  [130, 133], // rt_sigsuspend
  [131, 132], // sigaltstack
  [219, 128], // restart_syscall
  [60, 93], // exit
  [231, 94], // exit_group
  // Time, random numbers and facts about this process.
  [228, 113], // clock_gettime
  [229, 114], // clock_getres
  [230, 115], // clock_nanosleep
  [35, 101], // nanosleep
  [96, 169], // gettimeofday
  [201], // time
  [318, 278], // getrandom
  [39, 172], // getpid
  [110, 173], // getppid
  [186, 178], // gettid
  [102, 174], // getuid
  [107, 175], // geteuid
  [104, 176], // getgid
  [108, 177], // getegid
  [97, 163], // getrlimit
  [98, 165], // getrusage
  [99, 179], // sysinfo
  [63, 160], // uname
];

const CLONE_THREAD = 0x10000;
const FIONBIO = 0x5421;
const FIOCLEX = 0x5451;
/** F_GETFD, F_SETFD, F_GETFL, F_SETFL. Another command makes the kernel send signals to other processes. */
const DESCRIPTOR_FLAGS = [1, 2, 3, 4];

/** Classic BPF over `struct seccomp_data`. */
const LOAD = 0x20;
const IF_EQUAL = 0x15;
const IF_BITS = 0x45;
const RETURN = 0x06;

/** A call that is allowed with one of these values. Only the lower half of the argument is compared, which has all of them. */
interface Conditional {
  numbers: Numbers;
  argument: number;
  test: typeof IF_EQUAL | typeof IF_BITS;
  values: readonly number[];
}

const conditional = (processId: number): readonly Conditional[] => [
  // clone: starts threads, and no processes.
  { numbers: [56, 220], argument: 0, test: IF_BITS, values: [CLONE_THREAD] },
  // fcntl
  { numbers: [72, 25], argument: 1, test: IF_EQUAL, values: DESCRIPTOR_FLAGS },
  // ioctl
  { numbers: [16, 29], argument: 1, test: IF_EQUAL, values: [FIONBIO, FIOCLEX] },
  // kill and tgkill: only this process.
  { numbers: [62, 129], argument: 0, test: IF_EQUAL, values: [processId] },
  { numbers: [234, 131], argument: 0, test: IF_EQUAL, values: [processId] },
  // prlimit64: only this process.
  { numbers: [302, 261], argument: 0, test: IF_EQUAL, values: [0] },
];

/** Its flags are behind a pointer, which no filter can follow. The C library falls back to `clone` if it does not exist. */
const CLONE3: Numbers = [435, 435];

const ARCHITECTURES = {
  x64: { column: 0, audit: 0xc000003e },
  arm64: { column: 1, audit: 0xc00000b7 },
} as const;
export type Architecture = keyof typeof ARCHITECTURES;

export const isArchitecture = (name: string): name is Architecture => name in ARCHITECTURES;

const NUMBER_AT = 0;
const ARCHITECTURE_AT = 4;
const ARGUMENTS_AT = 16;
const ARGUMENT_BYTES = 8;

const ALLOW = 0x7fff0000;
const KILL_PROCESS = 0x80000000;
const FAIL = 0x00050000;
const EPERM = 1;
const ENOSYS = 38;

export const INSTRUCTION_BYTES = 8;

interface Instruction {
  code: number;
  value: number;
  /** How many instructions are skipped if the condition holds, and if it does not. */
  skipIf?: number;
  skipUnless?: number;
}

/** The filter as the kernel takes it: an array of `struct sock_filter`. */
export function filterProgram(architecture: Architecture, processId: number): Buffer {
  const { column, audit } = ARCHITECTURES[architecture];
  const result = (value: number): Instruction => ({ code: RETURN, value });
  const when = (code: number, value: number, then: readonly Instruction[]): Instruction[] => [
    { code, value, skipUnless: then.length },
    ...then,
  ];
  const forCall = (numbers: Numbers, then: readonly Instruction[]): Instruction[] => {
    const number = numbers[column];
    return number === undefined ? [] : when(IF_EQUAL, number, then);
  };
  return encoded([
    // Other ways into the kernel have other numbers.
    { code: LOAD, value: ARCHITECTURE_AT },
    { code: IF_EQUAL, value: audit, skipIf: 1 },
    result(KILL_PROCESS),
    { code: LOAD, value: NUMBER_AT },
    ...ALLOWED.flatMap((numbers) => forCall(numbers, [result(ALLOW)])),
    ...conditional(processId).flatMap(({ numbers, argument, test, values }) =>
      forCall(numbers, [
        { code: LOAD, value: ARGUMENTS_AT + argument * ARGUMENT_BYTES },
        ...values.flatMap((value) => when(test, value, [result(ALLOW)])),
        result(FAIL | EPERM),
      ]),
    ),
    ...forCall(CLONE3, [result(FAIL | ENOSYS)]),
    result(FAIL | EPERM),
  ]);
}

function encoded(program: readonly Instruction[]): Buffer {
  const bytes = Buffer.alloc(program.length * INSTRUCTION_BYTES);
  program.forEach(({ code, value, skipIf = 0, skipUnless = 0 }, index) => {
    const at = index * INSTRUCTION_BYTES;
    bytes.writeUInt16LE(code, at);
    bytes.writeUInt8(skipIf, at + 2);
    bytes.writeUInt8(skipUnless, at + 3);
    bytes.writeUInt32LE(value, at + 4);
  });
  return bytes;
}
