/** The stages of each job type in their order, in words. The page shows those that are still to come, too. */
export const STAGES = {
  assist: {
    reading: { en: 'Reading', zh: '阅读文档' },
    asking: { en: 'Asking the model', zh: '请求模型' },
    writing: { en: 'Writing', zh: '生成文字' },
  },
  export_pdf: {
    rendering: { en: 'Laying out', zh: '排版' },
    saving: { en: 'Saving', zh: '保存' },
    ready: { en: 'Ready', zh: '可以下载' },
  },
  send_mail: {
    composing: { en: 'Composing', zh: '撰写' },
    sending: { en: 'Sending', zh: '发送' },
    sent: { en: 'Sent', zh: '已发送' },
  },
  sync_folder: {
    comparing: { en: 'Comparing', zh: '比较' },
    copying: { en: 'Copying', zh: '复制' },
    done: { en: 'In step', zh: '已同步' },
  },
  add_credits: {
    booking: { en: 'Booking', zh: '入账' },
    booked: { en: 'Booked', zh: '已入账' },
  },
} as const
