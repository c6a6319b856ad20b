#include "sched/task.h"

#include <string.h>

#include "base/hash.h"

void kt__task_list_add(kt__task_list *list, kt__task *task) {
    task->next = NULL;
    task->prev = list->tail;
    if (list->tail) {
        list->tail->next = task;
    } else {
        list->head = task;
    }
    list->tail = task;
    list->n++;
}

void kt__task_list_remove(kt__task_list *list, kt__task *task) {
    if (task->prev) {
        task->prev->next = task->next;
    } else {
        list->head = task->next;
    }
    if (task->next) {
        task->next->prev = task->prev;
    } else {
        list->tail = task->prev;
    }
    task->prev = task->next = NULL;
    list->n--;
}

void kt__task_charge(kt__task *task, kt__account account, int64_t now_us) {
    task->us[account] += now_us - task->since_us;
    task->since_us = now_us;
}

bool kt__task_wants_step(const kt__task *t) {
    return t->state == KT__TASK_RUNNING && t->finish == KT_FINISH_NONE &&
           kt__task_wants_logits(t) && !t->in_batch && !t->loading && t->n_tok - t->n_done == 1;
}

bool kt__task_wants_prefill(const kt__task *t) {
    int32_t pending = t->n_tok - t->n_done;
    return t->state == KT__TASK_RUNNING && t->finish == KT_FINISH_NONE && !t->loading &&
           (pending > 1 || (!kt__task_wants_logits(t) && pending > 0));
}

uint64_t kt__client_key(const char *name) {
    return kt__hash_bytes(1, name, strlen(name)).w[0];
}
