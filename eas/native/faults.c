/* A signal handler that says which kernel's code has touched memory that it may not (eas/runtime/native/faults.py).

   It looks only at where the processor stood. Code of kernels is in a list, written when code is loaded, so that
   launches pay nothing. In all cases the handler that was there before then gets its turn: after a fault of a
   kernel because the instruction runs again, otherwise by a call. */
#include <signal.h>
#include <stdint.h>
#include <unistd.h>
#if defined(__APPLE__)
#include <sys/ucontext.h>
#else
#include <ucontext.h>
#endif

struct watched {
    uint64_t lo, hi; /* code from here up to there */
    const char *text;
    int64_t length;
    struct watched *next;
};

struct watched *eas_faults_codes;
static struct sigaction before_fault, before_bus;

/* Where the program stood. */
static uint64_t counter_of(const ucontext_t *context) {
#if defined(__APPLE__) && defined(__x86_64__)
    return context->uc_mcontext->__ss.__rip;
#elif defined(__APPLE__)
    return context->uc_mcontext->__ss.__pc;
#elif defined(__x86_64__)
    return (uint64_t)context->uc_mcontext.gregs[REG_RIP];
#else
    return context->uc_mcontext.pc;
#endif
}

static void on_fault(int signal, siginfo_t *info, void *context) {
    const struct sigaction *before = signal == SIGBUS ? &before_bus : &before_fault;
    uint64_t counter = counter_of(context);
    for (const struct watched *code = eas_faults_codes; code; code = code->next)
        if (code->lo <= counter && counter < code->hi) {
            ssize_t written = write(2, code->text, (size_t)code->length);
            (void)written;
            sigaction(signal, before, 0);
            return;
        }
    if (before->sa_handler == SIG_DFL || before->sa_handler == SIG_IGN) {
        sigaction(signal, before, 0);
        if (info->si_code <= 0) /* sent by a process: no instruction would raise it again */
            raise(signal);
    } else if (before->sa_flags & SA_SIGINFO) {
        before->sa_sigaction(signal, info, context);
    } else {
        before->sa_handler(signal);
    }
}

void eas_faults_install(void) {
    struct sigaction ours = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaction(SIGSEGV, &ours, &before_fault);
    sigaction(SIGBUS, &ours, &before_bus);
}
