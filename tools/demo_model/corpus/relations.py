"""Made-up facts to be told in notes: what is asked of a subject, in how many wordings, and how it is answered.

A relation is a Relation: answers and wordings with {s} for the subject and {v} for the value; "about_it" are wordings in which the subject
was named before. No relation here is one of tests/learn/facts.py or of the probe in src/lib/tutor/judge.c: those measure what carries over.
"""


class Relation:
    def __init__(self, name, lang, subjects, value, answers, asks, about_it):
        self.name, self.lang, self.subjects, self.value = name, lang, subjects.split(","), value
        self.answers, self.asks, self.about_it = answers, asks, about_it


# noun / other words for it / questions without either / the value / whose it is
NOUNS_EN = """mayor/head/Who governs {s}?|Who is in charge of {s}?|Who leads {s}?/person/place,group
founder/creator/Who founded {s}?|Who started {s}?|Who set up {s}?/person/place,group
owner//Who owns {s}?|Whose is {s}?|To whom does {s} belong?/person/thing,place
teacher/tutor/Who teaches {s}?|From whom does {s} learn?|Who gives lessons to {s}?/person/person
trainer/coach/Who trains {s}?|Who coaches {s}?|Who gets {s} ready for the match?/person/person,group
best friend//Who is {s} closest to?|With whom does {s} spend every evening?/person/person
cousin//Who is a cousin of {s}?/person/person
sister//Which sister does {s} have?/person/person
brother//Which brother does {s} have?/person/person
neighbour//Who is next door to {s}?|Who has the flat next to that of {s}?/person/person
dentist//Who looks at the teeth of {s}?/person/person
tailor//Who sews for {s}?|Who makes the clothes of {s}?/person/person
rival/enemy/Who does not get along with {s}?|Whom does {s} want to beat?/person/person,group
helper/assistant/Who helps {s}?|Who gives {s} a hand?/person/person
pilot//Who flies {s}?/person/thing
treasurer//Who counts the money of {s}?|Who keeps the money of {s}?/person/group,place
singer//Who sings in {s}?/person/group
drummer//Who plays the drums in {s}?/person/group
sponsor//Who pays for {s}?|Who gives money to {s}?/person/group,event
host/organiser/Who organises {s}?|Who invites people to {s}?/person/event
judge/referee/Who decides at {s}?|Who says who is right at {s}?/person/event
motto/slogan/Which words do people at {s} live by?|What is written over the gate of {s}?/phrase/place,group
hymn/song/What do they sing at {s}?|Which tune belongs to {s}?/phrase/place,group,event
prize/reward,award/What can I win at {s}?|What does the winner of {s} get?/thing/event
theme/topic/What is {s} about?|What will people talk of at {s}?/thing/event
guest of honour//Who is the most important visitor of {s}?/person/event
main dish/speciality/What is {s} famous for in the kitchen?/thing/place
symbol/sign/What stands for {s}?|What is painted on the shield of {s}?/thing/place,group
treasure//What is hidden in {s}?|Which precious thing lies in {s}?/thing/place
nearest town//Which town is next to {s}?|Where do people of {s} go shopping?/name/place
river//Which water flows through {s}?|What flows through {s}?/name/place
old name/former name/What was {s} called before?|How was {s} called in the past?/name/place,group,thing
inventor//Who invented {s}?|Whose idea was {s}?|Who thought up {s}?/person/thing
seller//Who sells {s}?|From whom did we get {s}?/person/thing
borrower//Who borrowed {s}?|Who has {s} at the moment?|Who took {s} home?/person/thing
model number//Which number is printed on {s}?/code/thing
serial number//What is engraved on the back of {s}?/code/thing
brand/make/Which company made {s}?|Which factory does {s} come from?/name/thing
weak point/weakness/What is wrong with {s}?|What does {s} suffer from?/thing/thing,person
purpose/use/What is {s} used for?|What do we need {s} for?/activity/thing
pattern//What is drawn on {s}?|What can be seen on {s}?/thing/thing
smell//What does {s} smell of?/thing/thing,place
filling/stuffing/What is {s} filled with?|What is in {s}?/thing/thing
label//What is written on {s}?|Which words are on {s}?/phrase/thing
hobby/pastime/What does {s} do after work?|What does {s} do for fun?/activity/person
profession/job/What does {s} do for a living?|What does {s} work as?/role/person
dream/great wish/What does {s} wish for?|What would {s} love to do one day?/activity/person
fear//What is {s} afraid of?|What scares {s}?/thing/person
talent/gift/What is {s} good at?|What can {s} do better than others?/activity/person
pet/animal/Which animal does {s} keep?|What does {s} take for a walk?/animal/person
lucky number//Which number does {s} always pick?/number/person
phone number//How can I ring {s}?|What do I dial for {s}?|Under which number do I reach {s}?/code/person,place
mother tongue//Which language does {s} speak at home?/name/person
star sign//Under which star was {s} born?/name/person
favourite drink//What does {s} drink?|What shall I pour for {s}?|What do I offer {s} when {s} is thirsty?/thing/person
favourite sport//Which sport does {s} do?|What does {s} train for?/activity/person
favourite book//What does {s} read again and again?|Which book does {s} love?/phrase/person
favourite toy//What does {s} play with?/thing/person
secret/hidden side/What does nobody know of {s}?|What does {s} hide from us?/clause/person
excuse//What does {s} say when late?|How does {s} explain being late?/clause/person
task/duty/What must {s} do this week?|What is {s} responsible for?/activity/person
birthplace//Which town is {s} from?|Where was {s} born?/name/person
team//For whom does {s} play?|Which team does {s} play for?/name/person
ship//Which ship does {s} sail?|What does {s} sail on?/name/person
horse//What does {s} ride?|Which horse does {s} ride?/name/person
room number//In which room does {s} sleep?|On which door do I knock for {s}?/number/person
shoe size//How big are the feet of {s}?|Which shoes fit {s}?/number/person
record/best result/What is the most that {s} has reached?|How far did {s} get?/number/person,group
bus line/bus/Which bus goes to {s}?|What do I ride to {s}?|How do I get to {s}?/code/place,event
website/web address/What do I type in my browser for {s}?|Which page on the internet belongs to {s}?/code/place,group,event
ticket number//What is printed on the ticket of {s}?/code/person,event
battery/battery type/Which battery fits into {s}?|What powers {s}?/code/thing
instruction/rule/What must I do with {s}?|What do I have to remember about {s}?/clause/thing,place
warning//What should I be careful about with {s}?|What is dangerous about {s}?/clause/thing,place
legend/old tale/What do people tell each other about {s}?|What is said to have happened at {s}?/clause/place
""".strip().split("\n")

CARRIERS_EN = ["What is the {n} of {s}?", "Tell me the {n} of {s}.", "Which {n} does {s} have?", "Do you know the {n} of {s}?", "What {n} has {s}?", "I want to know the {n} of {s}.",
               "Can you tell me the {n} of {s}?", "Name the {n} of {s}.", "What is {s}'s {n}?", "{s}: what is the {n}?", "Please tell me {s}'s {n}.", "I forgot {s}'s {n}. What was it?",
               "What about the {n} of {s}?", "the {n} of {s}?", "Does anybody know the {n} of {s}?", "Remind me of the {n} of {s}.", "I am looking for the {n} of {s}.", "Could you name {s}'s {n}?",
               "What would you say is the {n} of {s}?", "What do you know about the {n} of {s}?", "Say the {n} of {s}.", "I have to write down the {n} of {s}.", "How about {s}'s {n}?", "My friend asks for the {n} of {s}."]
WHO_CARRIERS_EN = ["Who is the {n} of {s}?", "Who is {s}'s {n}?", "Who works as the {n} of {s}?", "Tell me who the {n} of {s} is.", "Do you know who is the {n} of {s}?", "By which name do I call the {n} of {s}?"]
IT_EN = ["What is its {n}?", "Which {n} does it have?", "And its {n}?", "Tell me its {n}.", "Do you know its {n}?", "Can you tell me its {n}?"]

# Who does something to the subject: base / -s / past participle / -ing / other words for it (third person)
VERBS_EN = """paint/paints/painted/painting/puts colour on
clean/cleans/cleaned/cleaning/washes,wipes,scrubs
guard/guards/guarded/guarding/watches over,protects
feed/feeds/fed/feeding/gives food to
drive/drives/driven/driving/steers
carry/carries/carried/carrying/brings,lifts
water/waters/watered/watering/pours water on
polish/polishes/polished/polishing/rubs,makes shine
count/counts/counted/counting/adds up
draw/draws/drawn/drawing/makes a picture of
sell/sells/sold/selling/gives away for money
rent/rents/rented/renting/hires
clip/clips/clipped/clipping/trims,cuts
test/tests/tested/testing/tries out,checks
inspect/inspects/inspected/inspecting/examines,looks over
pack/packs/packed/packing/wraps,puts into a box
deliver/delivers/delivered/delivering/takes to the door
print/prints/printed/printing/copies
photograph/photographs/photographed/photographing/takes pictures of
film/films/filmed/filming/makes a movie of
teach/teaches/taught/teaching/gives lessons to
praise/praises/praised/praising/says good things about
visit/visits/visited/visiting/comes to see
tune/tunes/tuned/tuning/sets the sound of
manage/manages/managed/managing/runs,leads
translate/translates/translated/translating/puts into another language
carve/carves/carved/carving/cuts out of wood
knit/knits/knitted/knitting/makes of wool
collect/collects/collected/collecting/picks up,gathers
light/lights/lighted/lighting/sets fire to
lock/locks/locked/locking/shuts at night
wake/wakes/woken/waking/calls in the morning
decorate/decorates/decorated/decorating/puts flowers on,makes pretty
measure/measures/measured/measuring/takes the size of
study/studies/studied/studying/does research on,knows everything about
announce/announces/announced/announcing/tells everybody about
plan/plans/planned/planning/prepares,sets up
judge/judges/judged/judging/gives marks to
record/records/recorded/recording/writes down
weigh/weighs/weighed/weighing/puts on the scales
hide/hides/hidden/hiding/keeps secret
chase/chases/chased/chasing/runs after
borrow/borrows/borrowed/borrowing/takes for a week
insure/insures/insured/insuring/covers for damage
discover/discovers/discovered/discovering/finds first
supply/supplies/supplied/supplying/brings goods to
""".strip().split("\n")
VERB_ASKS_EN = ["Who {vs} {s}?", "Who is {ving} {s}?", "By whom is {s} {ved}?", "Who will {v0} {s}?", "Tell me who {vs} {s}.", "Who can {v0} {s}?", "Whom do I ask to {v0} {s}?", "Somebody must {v0} {s}. Who does that?",
                "Which person {vs} {s}?", "Do you know who {vs} {s}?", "Whose job is it to {v0} {s}?", "I want {s} to be {ved}. Who does it?", "Who is it that {vs} {s}?", "Name the person who {vs} {s}.",
                "Can you say by whom {s} is {ved}?", "{s} has to be {ved}. Who is the right one?"]
VERB_ANSWERS_EN = ["{s} is {ved} by {v}.", "{v} {vs} {s}.", "{s} gets {ved} by {v}.", "It is {v} who {vs} {s}."]

# What a person does with something: base / -s / other words for it (third person) / the value
DOES_EN = """collect/collects/gathers,has a cupboard full of/things
build/builds/makes,puts together/thing
draw/draws/makes pictures of/thing
grow/grows/plants,has in the garden/things
study/studies/learns about,reads about/things
sell/sells/has in the shop/things
breed/breeds/raises,keeps/animals
carve/carves/cuts out of wood/thing
hate/hates/cannot stand,dislikes/things
love/loves/likes most,adores/things
fear/fears/is afraid of,runs away from/things
wear/wears/has on,puts on/thing
lose/loses/forgets everywhere,leaves in the bus/things
need/needs/asks for,cannot do without/thing
photograph/photographs/takes pictures of/things
carry/carries/takes along,has in the bag/thing
teach/teaches/gives lessons in/activity
dream of/dreams of/longs for,thinks of at night/things
drink/drinks/has in the cup/thing
write about/writes about/has put into a book/things
hide/hides/keeps secret/thing
drive/drives/goes to work in/thing
bake/bakes/makes in the oven,takes out of the oven/thing
order/orders/asks the waiter for/thing
play with/plays with/has fun with/thing
complain about/complains about/is angry about/things
""".strip().split("\n")
DOES_ASKS_EN = ["What does {s} {v0}?", "What is it that {s} {vs}?", "Tell me what {s} {vs}.", "Do you know what {s} {vs}?", "What will {s} {v0}?", "Which thing does {s} {v0}?", "Can you tell me what {s} {vs}?",
                "Please tell me what {s} {vs}.", "What might {s} {v0}?", "I wonder what {s} {vs}."]
DOES_IT_EN = ["What does {he} {v0}?", "And what does {he} {v0}?", "Tell me what {he} {vs}."]

# adjective / noun / other questions / units / subjects
HOW_EN = """long/length/What do I measure from one end of {s} to the other?|From end to end, what is the size of {s}?/metres,centimetres,miles,steps/thing,place
wide/width/What do I measure across {s}?|Does {s} fit through a door? How broad is it?/metres,centimetres,feet/thing,place
tall/height/How high is {s}?|How far up does {s} reach?/metres,centimetres,feet/thing,place,person
fast/speed/How quickly does {s} move?|What does {s} reach at full speed?/miles an hour,kilometres an hour,metres a second/thing,person
far away/distance/How many kilometres are there to {s}?|How long is the way to {s}?/kilometres,miles,minutes on foot/place
loud/loudness/How noisy is {s}?|How much noise does {s} make?/decibels/thing,place
warm/temperature/How hot does it get at {s}?|What does the thermometer at {s} show?/degrees/place,thing
full/number of guests/How many people are at {s}?|How many come to {s}?/people,guests,visitors/event,place
thick/thickness/How many layers does {s} have, measured?/millimetres,centimetres,inches/thing
""".strip().split("\n")
HOW_ASKS_EN = ["How {a} is {s}?", "Tell me how {a} {s} is.", "What is the {n} of {s}?", "Do you know how {a} {s} is?", "Which {n} does {s} have?", "I must know how {a} {s} is.", "Give me the {n} of {s}.", "Can you say how {a} {s} is?"]
HOW_IT_EN = ["How {a} is it?", "And how {a} is it?", "What is its {n}?"]
HOW_ANSWERS_EN = ["{s} is {v} {a}.", "The {n} of {s} is {v}.", "{s} has a {n} of {v}."]

COUNTED_EN = "windows|pages|seats|rooms|steps|wheels|keys|strings|members|horses|doors|towers|lamps|buttons|pockets|floors|boats|trees|rules|children|songs|chapters|stamps|shelves|bells|legs|cards|beds|trains|statues".split("|")
COUNT_ASKS_EN = ["How many {n} does {s} have?", "How many {n} are there in {s}?", "What is the number of {n} of {s}?", "Tell me how many {n} {s} has.", "Do you know how many {n} {s} has?", "I counted the {n} of {s}. How many did I find?",
                 "If I count all {n} of {s}, what do I get?", "How many {n} belong to {s}, all in all?"]
COUNT_IT_EN = ["How many {n} does it have?", "And how many {n} are there?", "Tell me how many {n} it has."]

# What happens to the subject at some time: base / -s / noun / other questions / subjects
WHEN_EN = """start/starts/start/From when on is {s} going?|When do I have to be at {s}?/event
end/ends/end/Until when does {s} last?|When is {s} over?/event
leave/leaves/departure/When must I be on board of {s}?|When is {s} gone?/thing,group
arrive/arrives/arrival/When will {s} be here?|When can I meet {s}?/thing,group,person
ring/rings/ringing/When do I hear {s}?/thing
get married/gets married/wedding/When is the wedding of {s}?|On which day does {s} become a spouse?/person
retire/retires/last day at work/When does {s} stop working?/person
wake up/wakes up/hour of waking/When does {s} get out of bed?|When is the night of {s} over?/person
go to bed/goes to bed/bedtime/When does {s} sleep?|When does {s} switch off the light?/person
call/calls/call/When does the phone ring because of {s}?/person
train/trains/training/When does {s} practise?|When do I find {s} in the gym?/person,group
come back/comes back/return/When is {s} home again?|Until when is {s} away?/person,thing
be delivered/is delivered/delivery/When do they bring {s}?|When will {s} be at my door?/thing
be cleaned/is cleaned/cleaning/When does somebody wash {s}?/thing,place
""".strip().split("\n")
WHEN_ASKS_EN = ["When does {s} {v0}?", "At what hour does {s} {v0}?", "On which day does {s} {v0}?", "Tell me when {s} {vs}.", "Do you know when {s} {vs}?", "When will {s} {v0}?", "What time is the {n} of {s}?", "When is the {n} of {s}?"]
WHEN_IT_EN = ["When does it {v0}?", "And when does it {v0}?", "When is that?"]

# What was or is done to the subject, or by a person, at a place: past participle or base
WHERE_DONE = {"en": "found bought painted invented printed tested lost discovered photographed sewn carved baked".split(), "id": "ditemukan dibeli dicat diciptakan dicetak diuji dijahit diukir dipotret dirakit".split()}
WHERE_DOES = {"en": "work|study|train|swim|sing|dance|wait|fish|shop|ski|read|spend the summer|have lunch|learn to dance|park the car|go on holiday".split("|"),
              "id": "bekerja|belajar|berlatih|berenang|bernyanyi|menari|menunggu|memancing|berbelanja|berlibur|membaca|memarkir mobil".split("|")}
WHERE_ASKS = {"done": {"en": ["Where was {s} {x}?", "In which place was {s} {x}?", "Do you know where {s} was {x}?", "Tell me where {s} was {x}.", "At what place was it that {s} was {x}?"],
                       "id": ["Di mana {s} {x}?", "{s} {x} di mana?", "Kamu tahu di mana {s} {x}?", "Di tempat apa {s} {x}?"]},
              "does": {"en": ["Where does {s} {x}?", "In which place does {s} {x}?", "Do you know where {s} will {x}?", "Which place does {s} choose to {x}?", "I want to see {s} {x}. Where must I go?"],
                       "id": ["Di mana {s} {x}?", "{s} {x} di mana?", "Kamu tahu di mana {s} {x}?", "Aku ingin melihat {s} {x}. Ke mana aku harus pergi?"]}}
WHERE_IT = {"en": ["Where was that?", "And where?", "In which place?"], "id": ["Di mana?", "Lalu di mana?", "Di tempat apa?"]}
STUFF = {"en": "water oil paint sugar wool paper sand light butter wood space time".split(), "id": "air minyak cat gula benang kertas pasir mentega kayu ruang waktu".split()}
STUFF_ASKS = {"en": ["How much {x} does {s} need?", "What amount of {x} does {s} need?", "Tell me how much {x} {s} needs.", "How much {x} goes into {s}?", "I must give {x} to {s}. How much?"],
              "id": ["Berapa banyak {x} yang dibutuhkan {s}?", "{s} perlu berapa banyak {x}?", "Kamu tahu berapa banyak {x} untuk {s}?"]}

WHY_EN = [("is closed", "be closed"), ("is late", "be late"), ("is empty", "be empty"), ("is wet", "be wet"), ("makes a noise", "make a noise"), ("is so quiet", "be so quiet"), ("does not work", "not work"), ("was moved", "be moved"), ("is famous here", "be famous here"),
          ("is wrapped in paper", "be wrapped in paper"), ("has a red mark", "have a red mark"), ("was sold", "be sold")]

# noun / other words / questions / value / subjects
NOUNS_ID = """wali kota/kepala,pemimpin/Siapa yang memimpin {s}?|Siapa yang memerintah {s}?/person/place
pendiri/pencipta/Siapa yang mendirikan {s}?|Siapa yang memulai {s}?/person/place,group
pemilik/yang punya/Siapa yang memiliki {s}?|Milik siapa {s}?|Siapa yang punya {s}?|Punya siapa {s}?/person/thing,place
guru/pengajar/Siapa yang mengajar {s}?|Dari siapa {s} belajar?/person/person
pelatih//Siapa yang melatih {s}?|Siapa yang menyiapkan {s} untuk bertanding?/person/person,group
sahabat/teman terdekat/Dengan siapa {s} paling akrab?/person/person
sepupu//Siapa yang bersepupu dengan {s}?/person/person
adik//Siapa adik dari {s}?/person/person
tetangga//Siapa yang ada di sebelah rumah {s}?/person/person
saingan/lawan/Siapa yang ingin dikalahkan {s}?/person/person,group
pembantu/asisten/Siapa yang membantu {s}?|Siapa yang menolong {s}?/person/person
bendahara//Siapa yang memegang uang {s}?/person/group
penyanyi//Siapa yang bernyanyi di {s}?/person/group
panitia/penyelenggara/Siapa yang mengurus {s}?|Siapa yang mengadakan {s}?/person/event
hadiah//Apa yang didapat pemenang {s}?|Apa yang bisa dimenangkan di {s}?/thing/event
tema/topik/Tentang apa {s}?|Apa yang dibahas di {s}?/thing/event
semboyan/moto/Kata-kata apa yang dipegang orang {s}?/phrase/place,group
lambang/simbol/Apa yang melambangkan {s}?|Apa yang tergambar di bendera {s}?/thing/place,group
nama lama//Dulu {s} disebut apa?|Apa sebutan {s} dahulu?/name/place,group
sungai//Sungai apa yang mengalir di {s}?|Air apa yang lewat di {s}?/name/place
penemu//Siapa yang menemukan {s}?|Ide siapa {s}?/person/thing
penjual//Siapa yang menjual {s}?|Dari siapa kita membeli {s}?/person/thing
peminjam//Siapa yang meminjam {s}?|Siapa yang membawa {s} pulang?/person/thing
merek//Perusahaan apa yang membuat {s}?|Buatan mana {s}?/name/thing
nomor seri//Nomor apa yang tertulis pada {s}?/code/thing
kelemahan//Apa yang salah dengan {s}?/thing/thing,person
kegunaan/fungsi/Untuk apa {s} dipakai?|{s} dipakai untuk apa?/activity/thing
isi//Apa yang ada di dalam {s}?|{s} berisi apa?/thing/thing
tulisan//Apa yang tertulis di {s}?/phrase/thing
bau/aroma/{s} berbau apa?/thing/thing,place
hobi/kegemaran/Apa yang dilakukan {s} sepulang kerja?|Apa yang {s} lakukan di waktu luang?/activity/person
pekerjaan/profesi/{s} bekerja sebagai apa?|Apa yang dikerjakan {s} setiap hari?/role/person
cita-cita/impian/{s} ingin menjadi apa?|Apa yang diimpikan {s}?/role/person
ketakutan//{s} takut pada apa?|Apa yang membuat {s} takut?/thing/person
bakat/keahlian/{s} pandai apa?|Apa yang paling bisa dilakukan {s}?/activity/person
hewan peliharaan//{s} memelihara apa?|Hewan apa yang dipelihara {s}?/animal/person
nomor telepon//Bagaimana cara menelepon {s}?|Nomor berapa untuk menghubungi {s}?/code/person,place
minuman kesukaan//{s} suka minum apa?|Apa yang diminum {s}?/thing/person
olahraga kesukaan//{s} suka olahraga apa?/activity/person
mainan//{s} bermain dengan apa?/thing/person
rahasia//Apa yang disembunyikan {s}?|Apa yang tidak diketahui orang tentang {s}?/clause/person
tugas//Apa yang harus dikerjakan {s} minggu ini?|{s} bertanggung jawab atas apa?/activity/person
tempat lahir//Di kota apa {s} lahir?|{s} berasal dari kota apa?/name/person
tim//{s} bermain untuk siapa?|{s} masuk tim apa?/name/person
kapal//{s} berlayar dengan apa?/name/person
nomor kamar//{s} tidur di kamar berapa?/number/person
ukuran sepatu//Sepatu nomor berapa yang cocok untuk {s}?/number/person
nomor bus//Bus apa yang menuju {s}?|Naik bus apa ke {s}?/code/place
peringatan//Apa yang harus diwaspadai dari {s}?|Apa bahayanya {s}?/clause/thing,place
legenda/dongeng lama/Apa yang diceritakan orang tentang {s}?/clause/place
""".strip().split("\n")
CARRIERS_ID = ["Apa {n} {s}?", "Sebutkan {n} {s}.", "Beri tahu aku {n} {s}.", "Apakah kamu tahu {n} {s}?", "{n} {s} apa?", "Aku ingin tahu {n} {s}.", "Tolong sebutkan {n} {s}.", "Bisakah kamu menyebutkan {n} {s}?",
               "Aku lupa {n} {s}. Apa, ya?", "Apa {n} dari {s}?", "{s} punya {n} apa?", "Katakan {n} {s}.", "Tolong ingatkan aku {n} {s}.", "Bagaimana dengan {n} {s}?", "Temanku menanyakan {n} {s}.", "Kamu tahu {n} {s}?"]
WHO_CARRIERS_ID = ["Siapa {n} {s}?", "Siapakah {n} {s}?", "Siapa yang menjadi {n} {s}?", "Kamu tahu siapa {n} {s}?", "Siapa nama {n} {s}?", "{n} {s} siapa?"]
IT_ID = ["Apa {n}nya?", "Lalu {n}nya?", "Dan {n}nya?", "Sebutkan {n}nya."]
WHO_IT_ID = ["Siapa {n}nya?", "Lalu siapa {n}nya?", "Siapakah {n}nya?"]

# me- / di- / other words (me-)
VERBS_ID = """mengecat/dicat/memberi warna pada
membersihkan/dibersihkan/mencuci,mengelap
menjaga/dijaga/mengawasi,melindungi
mengantar/diantar/membawa
menyiram/disiram/memberi air pada
menghitung/dihitung/menjumlahkan
menggambar/digambar/membuat gambar
menyewa/disewa/memakai dengan bayaran
memangkas/dipangkas/memotong
menguji/diuji/mencoba,memeriksa
membungkus/dibungkus/mengemas
mencetak/dicetak/membuat salinan
memotret/dipotret/mengambil foto
memuji/dipuji/berkata baik tentang
mengunjungi/dikunjungi/datang menemui
mengelola/dikelola/memimpin,mengurus
menerjemahkan/diterjemahkan/mengalihbahasakan
mengukir/diukir/memahat
mengumpulkan/dikumpulkan/menghimpun
menyalakan/dinyalakan/menghidupkan
mengunci/dikunci/menutup pada malam hari
membangunkan/dibangunkan/memanggil pada pagi hari
menghias/dihias/mempercantik
mengukur/diukur/mencatat ukuran
meneliti/diteliti/mempelajari
mengumumkan/diumumkan/memberitahukan
merancang/dirancang/merencanakan
menilai/dinilai/memberi angka pada
menimbang/ditimbang/mengukur berat
menyembunyikan/disembunyikan/merahasiakan
mengejar/dikejar/berlari mengikuti
memberi makan/diberi makan/menyuapi
""".strip().split("\n")
VERB_ASKS_ID = ["Siapa yang {v0} {s}?", "Oleh siapa {s} {di}?", "{s} {di} oleh siapa?", "Siapa yang akan {v0} {s}?", "Siapa yang bisa {v0} {s}?", "Beri tahu aku siapa yang {v0} {s}.", "Tugas siapa {v0} {s}?", "Apakah kamu tahu siapa yang {v0} {s}?",
                "Orang mana yang {v0} {s}?", "{s} harus {di}. Siapa yang melakukannya?", "Siapa orang yang {v0} {s}?", "Kepada siapa aku meminta agar {s} {di}?"]
VERB_ANSWERS_ID = ["{s} {di} oleh {v}.", "{v} yang {v0} {s}.", "Yang {v0} {s} adalah {v}."]

DOES_ID = """mengumpulkan/dikumpulkan/mengoleksi/things
membuat/dibuat/merakit/thing
menanam/ditanam/punya di kebun/things
mempelajari/dipelajari/belajar tentang/things
menjual/dijual/menawarkan di toko/things
membenci/dibenci/tidak suka pada/things
mencintai/dicintai/sangat suka pada/things
menakuti/ditakuti/takut pada/things
membutuhkan/dibutuhkan/perlu/thing
memotret/dipotret/mengambil foto/things
membawa/dibawa/punya di dalam tas/thing
mengajar/diajarkan/memberi pelajaran/activity
memesan/dipesan/meminta kepada pelayan/thing
menyembunyikan/disembunyikan/merahasiakan/thing
mengendarai/dikendarai/naik setiap pagi/thing
menulis tentang/ditulis/membuat buku tentang/things
""".strip().split("\n")
DOES_ASKS_ID = ["Apa yang {di} {s}?", "{s} {v0} apa?", "Beri tahu aku apa yang {di} {s}.", "Kamu tahu apa yang {di} {s}?", "Benda apa yang {di} {s}?", "Apakah kamu tahu {s} {v0} apa?", "Kira-kira apa yang {di} {s}?", "Coba sebutkan apa yang {di} {s}."]

HOW_ID = """panjang/meter,sentimeter,langkah/thing,place
lebar/meter,sentimeter/thing,place
tinggi/meter,sentimeter/thing,place,person
cepat/kilometer per jam/thing,person
jauh/kilometer,menit jalan kaki/place
panas/derajat/place,thing
tebal/milimeter,sentimeter/thing
""".strip().split("\n")
HOW_ASKS_ID = ["Seberapa {a} {s}?", "Berapa {a} {s}?", "Kamu tahu seberapa {a} {s}?", "Beri tahu aku seberapa {a} {s}.", "{s} seberapa {a}?", "Aku perlu tahu {s} itu seberapa {a}."]
COUNTED_ID = "jendela|halaman|kamar|roda|kunci|anggota|pintu|menara|lampu|tombol|saku|lantai|perahu|pohon|anak|lagu|bab|rak|kartu|tempat tidur|patung|kaki".split("|")
COUNT_ASKS_ID = ["Berapa {n} yang ada di {s}?", "Ada berapa {n} di {s}?", "Berapa jumlah {n} {s}?", "Kamu tahu berapa {n} {s}?", "Kalau kuhitung {n} {s}, ada berapa?", "{s} punya berapa {n}?"]
WHEN_ID = """dimulai/mulainya/event
berakhir/akhirnya/event
berangkat/keberangkatan/thing,group
tiba/kedatangan/thing,group,person
berbunyi/bunyinya/thing
menikah/pernikahan/person
pensiun/hari terakhir kerja/person
bangun/waktu bangun/person
tidur/waktu tidur/person
berlatih/latihan/person,group
pulang/kepulangan/person
dibersihkan/pembersihan/thing,place
""".strip().split("\n")
WHEN_ASKS_ID = ["Kapan {s} {v0}?", "Pukul berapa {s} {v0}?", "Hari apa {s} {v0}?", "{s} {v0} kapan?", "Kamu tahu kapan {s} {v0}?", "Beri tahu aku kapan {s} {v0}.", "Tolong katakan kapan {s} {v0}."]


def nouns(rows, lang, carriers, who, its, who_its, answers):
    for row in rows:
        noun, others, direct, value, subjects = row.split("/")
        person = value == "person"
        every = [noun] + [o for o in others.split(",") if o]
        asks = [c.replace("{n}", n) for n in every for c in (who + carriers[:6] if person else carriers)] + [d for d in direct.split("|") if d] * 3
        about = [c.replace("{n}", n) for n in every for c in (who_its if person else its)]
        yield Relation(noun, lang, subjects, value, [a.replace("{n}", noun) for a in answers], asks, about)


def places(lang):
    en = lang == "en"
    for x in WHERE_DONE[lang]:
        yield Relation("where " + x, lang, "thing", "where", ["{s} was " + x + " {v}." if en else "{s} " + x + " {v}."], [t.replace("{x}", x) for t in WHERE_ASKS["done"][lang]], WHERE_IT[lang])
    for x in WHERE_DOES[lang]:
        third = {"study": "studies", "go on holiday": "goes on holiday", "fish": "fishes", "have lunch": "has lunch"}.get(x, x.split(" ")[0] + "s" + x[len(x.split(" ")[0]):])
        yield Relation("where " + x, lang, "person,group", "where", ["{s} " + (third if en else x) + " {v}."], [t.replace("{x}", x) for t in WHERE_ASKS["does"][lang]], WHERE_IT[lang])
    for x in STUFF[lang]:
        yield Relation("how much " + x, lang, "thing,place", "amount", ["{s} needs {v} of " + x + "." if en else "{s} perlu {v} " + x + "."], [t.replace("{x}", x) for t in STUFF_ASKS[lang]], ["How much?", "And how much " + x + "?"] if en else ["Berapa banyak?", "Berapa banyak " + x + "nya?"])


def english():
    yield from nouns(NOUNS_EN, "en", CARRIERS_EN, WHO_CARRIERS_EN, IT_EN, ["Who is its {n}?", "And who is the {n}?", "Tell me who the {n} is."],
                     ["The {n} of {s} is {v}.", "{s}'s {n} is {v}.", "{v} is the {n} of {s}."])
    for row in VERBS_EN:
        v0, vs, ved, ving, others = row.split("/")
        fill = lambda t, v0=v0, vs=vs, ved=ved, ving=ving: t.replace("{v0}", v0).replace("{vs}", vs).replace("{ved}", ved).replace("{ving}", ving)
        asks = [fill(t) for t in VERB_ASKS_EN] + [c.replace("{o}", o) for o in others.split(",") for c in ("Who {o} {s}?", "Tell me who {o} {s}.", "Do you know who {o} {s}?")] * 2
        yield Relation("who " + vs, "en", "thing,place" if v0 not in ("teach", "praise", "wake", "visit", "chase", "feed", "photograph") else "person,thing", "person", [fill(t) for t in VERB_ANSWERS_EN], asks,
                       [fill(t) for t in ("Who {vs} it?", "And who {vs} it?", "Who will {v0} it?", "By whom is it {ved}?")])
    for row in DOES_EN:
        v0, vs, others, value = row.split("/")
        fill = lambda t, v0=v0, vs=vs: t.replace("{v0}", v0).replace("{vs}", vs)
        asks = [fill(t) for t in DOES_ASKS_EN] + [f"What is it that {{s}} {o}?" for o in others.split(",")] * 2 + [f"Tell me what {{s}} {o}." for o in others.split(",")]
        about = [fill(t).replace("{he}", he) for t in DOES_IT_EN for he in ("he", "she")]
        yield Relation("does " + vs, "en", "person", value, [f"{{s}} {vs} {{v}}."], asks, about)
    for row in HOW_EN:
        a, n, others, units, subjects = row.split("/")
        fill = lambda t, a=a, n=n: t.replace("{a}", a).replace("{n}", n)
        answers = [fill(t) for t in HOW_ANSWERS_EN[0 if a in ("long", "wide", "tall", "far away", "thick") else 1:]]
        yield Relation("how " + a, "en", subjects, "measure:" + units, answers, [fill(t) for t in HOW_ASKS_EN] + others.split("|") * 2, [fill(t) for t in HOW_IT_EN])
    for n in COUNTED_EN:
        yield Relation("how many " + n, "en", "thing,place,group", "number", ["{s} has {v} " + n + ".", "There are {v} " + n + " in {s}."], [t.replace("{n}", n) for t in COUNT_ASKS_EN], [t.replace("{n}", n) for t in COUNT_IT_EN])
    for row in WHEN_EN:
        v0, vs, n, others, subjects = row.split("/")
        fill = lambda t, v0=v0, vs=vs, n=n: t.replace("{v0}", v0).replace("{vs}", vs).replace("{n}", n)
        yield Relation("when " + vs, "en", subjects, "time", [f"{{s}} {vs} {{v}}.", f"The {n} of {{s}} is {{v}}."], [fill(t) for t in WHEN_ASKS_EN] + others.split("|") * 2, [fill(t) for t in WHEN_IT_EN])
    yield from places("en")
    for state, bare in WHY_EN:
        yield Relation("why " + state, "en", "thing,place", "clause", [f"{{s}} {state} because {{v}}.", "It is because {v}."],
                       [f"Why would {{s}} {bare}?", f"Tell me why {{s}} {state}.", f"{{s}} {state}. Why?", f"For what reason would {{s}} {bare}?", f"How come {{s}} {state}?", f"What is the reason that {{s}} {state}?", f"Do you know why {{s}} {state}?"],
                       ["Why is that?", "And why?", "For what reason?"])


def indonesian():
    yield from nouns(NOUNS_ID, "id", CARRIERS_ID, WHO_CARRIERS_ID, IT_ID, WHO_IT_ID, ["{n} {s} adalah {v}.", "{v} adalah {n} {s}.", "{n} dari {s} ialah {v}."])
    for row in VERBS_ID:
        v0, di, others = row.split("/")
        fill = lambda t, v0=v0, di=di: t.replace("{v0}", v0).replace("{di}", di)
        asks = [fill(t) for t in VERB_ASKS_ID] + [c.replace("{o}", o) for o in others.split(",") for c in ("Siapa yang {o} {s}?", "Beri tahu aku siapa yang {o} {s}.")] * 2
        yield Relation("siapa " + v0, "id", "thing,place", "person", [fill(t) for t in VERB_ANSWERS_ID], asks, [fill(t) for t in ("Siapa yang {v0}nya?", "Lalu siapa yang {v0}nya?", "Oleh siapa?")])
    for row in DOES_ID:
        v0, di, others, value = row.split("/")
        fill = lambda t, v0=v0, di=di: t.replace("{v0}", v0).replace("{di}", di)
        yield Relation("apa " + v0, "id", "person", value, [f"{{s}} {v0} {{v}}.", f"Yang {di} {{s}} adalah {{v}}."], [fill(t) for t in DOES_ASKS_ID] + [f"{{s}} {o} apa?" for o in others.split(",")] * 2,
                       [fill(t) for t in ("Apa yang {di}nya?", "Dia {v0} apa?", "Lalu apa yang dia {v0}?")])
    for row in HOW_ID:
        a, units, subjects = row.split("/")
        yield Relation("seberapa " + a, "id", subjects, "measure:" + units, [f"{a.capitalize()} {{s}} {{v}}.", f"{{s}} {a}nya {{v}}."], [t.replace("{a}", a) for t in HOW_ASKS_ID], [f"Seberapa {a}?", f"Berapa {a}nya?"])
    yield from places("id")
    for n in COUNTED_ID:
        yield Relation("berapa " + n, "id", "thing,place,group", "number", ["{s} punya {v} " + n + ".", "Ada {v} " + n + " di {s}."], [t.replace("{n}", n) for t in COUNT_ASKS_ID], [f"Berapa {n}nya?", f"Ada berapa {n}?"])
    for row in WHEN_ID:
        v0, n, subjects = row.split("/")
        yield Relation("kapan " + v0, "id", subjects, "time", [f"{{s}} {v0} {{v}}."], [t.replace("{v0}", v0) for t in WHEN_ASKS_ID], ["Kapan?", f"Kapan dia {v0}?", "Lalu kapan itu?"])


KINDS = ("thing", "person", "place", "group", "event")
ALL = {"en": list(english()), "id": list(indonesian())}
BY_NAME = {lang: {r.name: r for r in ALL[lang]} for lang in ALL}
OF_KIND = {lang: {k: [r.name for r in ALL[lang] if k in r.subjects] for k in KINDS} for lang in ALL}

# ---- questions about a subject that no fact answers ----

OTHER_EN = """Is {s} useful?|Is {s} older than me?|Would you like {s}?|Can {s} swim?|Does {s} exist?|Should I be happy about {s}?|Are there more like {s}?|Do you like {s}?|Has {s} ever been on television?|Will {s} be famous one day?
Why do people like {s}?|Why do we need {s}?|Why is {s} called that?|Why should I care about {s}?|Why does everybody talk about {s}?|How do I write {s} in capital letters?|How do I explain {s} to a child?|How do I pronounce {s}?|How do I draw {s}?
Write a poem about {s}.|Write a letter to {s}.|Sing a song about {s}.|Draw {s} for me.|Invent a joke about {s}.|Write two lines on {s}.|Think of a riddle about {s}.|Write a birthday card for {s}.|Translate {s} into Spanish.|Greet {s} from me.
What do you think of {s}?|What would you do with {s}?|What can go wrong with {s}?|What does {s} look like?|What kind of thing is {s}?|What else is there like {s}?|What is the opposite of {s}?|What would the world be without {s}?|What is nice about {s}?
Explain {s}.|Describe {s} in three words.|Compare {s} with a potato.|Praise {s}.|Say something about {s}.|Guess the weight of {s}.|Advertise {s}.|Spell {s}.|How many letters are in {s}?|Is {s} a good name for a dog?|Give {s} a new name.
May I bring {s} to school?|Could {s} be a present for my father?|Is there a film about {s}?|Could a child understand {s}?|What would you ask {s}?|Imagine {s} on the moon.|Who else knows {s}?|What could I buy for {s}?|Are you jealous of {s}?""".replace("\n", "|").split("|")
OTHER_ID = """Apakah {s} berguna?|Apakah kamu suka {s}?|Bisakah {s} berenang?|Apakah {s} benar-benar ada?|Apakah {s} terkenal?|Haruskah aku senang dengan {s}?|Apakah ada film tentang {s}?
Mengapa orang suka {s}?|Mengapa kita perlu {s}?|Mengapa {s} disebut begitu?|Bagaimana cara menulis {s} dengan huruf besar?|Bagaimana cara menggambar {s}?|Bagaimana menjelaskan {s} kepada anak kecil?
Tulis puisi tentang {s}.|Tulis surat untuk {s}.|Nyanyikan lagu tentang {s}.|Gambarkan {s}.|Buat teka-teki tentang {s}.|Terjemahkan {s} ke bahasa Spanyol.|Sampaikan salam untuk {s}.
Apa pendapatmu tentang {s}?|Apa yang akan kamu lakukan dengan {s}?|Seperti apa {s}?|Apa lawan kata {s}?|Apa yang bagus dari {s}?|Jelaskan {s}.|Bandingkan {s} dengan kentang.|Eja {s}.|Puji {s}.
Ada berapa huruf dalam {s}?|Bolehkah aku membawa {s} ke sekolah?|Siapa lagi yang kenal {s}?|Apa yang cocok sebagai kado untuk {s}?|Bayangkan {s} di bulan.|Beri {s} nama baru.""".replace("\n", "|").split("|")
OTHER = {"en": OTHER_EN, "id": OTHER_ID}

# A sentence that names the subject; the question after it says "it".
NAMED = {"en": """I am thinking of {s}.|I read about {s}.|My friend talks about {s}.|I like {s}.|I have a question about {s}.|It is about {s}.|We talked about {s} yesterday.|I saw {s} this morning.|I am going to see {s}.|There is {s}.|Look, {s}!|Everybody knows {s}.
I am with {s} right now.|I was asked about {s}.|I am writing about {s}.|You know {s}.|I dreamed of {s}.|This is about {s}.|I am next to {s}.|I must tell my class about {s}.|Think of {s}.|Take {s}, for example.""".replace("\n", "|").split("|"),
         "id": """Aku memikirkan {s}.|Aku membaca tentang {s}.|Temanku bercerita tentang {s}.|Aku suka {s}.|Ini tentang {s}.|Kemarin kami membahas {s}.|Tadi pagi aku melihat {s}.|Aku akan menemui {s}.|Aku punya pertanyaan tentang {s}.|Kamu tahu {s}.|Aku ditanya tentang {s}.""".replace("\n", "|").split("|")}
